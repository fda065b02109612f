import subprocess
import sys
from pathlib import Path

from devcluster.vm import base


def fields(archive: bytes, at: int) -> tuple[str, int, bytes, int]:
    """Name, mode and content of an entry of format newc, and where the next one begins."""
    assert archive[at : at + 6] == b"070701"
    numbers = [int(archive[at + 6 + 8 * index : at + 14 + 8 * index], 16) for index in range(13)]
    mode, size, length = numbers[1], numbers[6], numbers[11]
    name = archive[at + 110 : at + 110 + length - 1].decode()
    content = at + 110 + length + (-(110 + length) % 4)
    return name, mode, archive[content : content + size], content + size + (-size % 4)


def test_an_initrd_has_each_folder_before_what_is_in_it():
    archive = base.cpio({"bin/busybox": b"program", "init": b"#!"})
    found, at = [], 0
    while at < len(archive):
        name, mode, content, at = fields(archive, at)
        found.append((name, oct(mode), content))
    assert found == [
        ("bin", "0o40755", b""),
        ("bin/busybox", "0o100755", b"program"),
        ("init", "0o100755", b"#!"),
        ("TRAILER!!!", "0o0", b""),
    ]


def test_another_list_of_packages_is_another_system(tmp_path: Path, monkeypatch):
    before = base.find(tmp_path)
    monkeypatch.setattr(base, "PACKAGES", (*base.PACKAGES, "nftables"))
    assert base.find(tmp_path).folder != before.folder
    assert base.find(tmp_path).folder.parent == before.folder.parent == tmp_path / "vm"


def test_a_system_that_is_there_is_not_made_again(tmp_path: Path):
    made = base.find(tmp_path)
    made.folder.mkdir(parents=True)
    lines: list[str] = []
    assert base.ensure(tmp_path, progress=lines.append) == made
    assert not lines


def test_the_scripts_are_clean():
    scripts = sorted(base.HERE.glob("*.sh"))
    assert [script.name for script in scripts] == ["boot.sh", "init.sh", "kernel.sh", "serve.sh"]
    program = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([program, "--exclude=SC1091,SC2154", *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
