"""expire-images: images of run-image's cache go by age and size, and never one that is in use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "expire-images"
ANN, BOB = 65431, 65432
DAY_S: Final = 86400
GIB: Final = 2**20
"""In KiB."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="users have folders of their own")


class Cache:
    """The cache of images of one node, or of several."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "images"
        self.folder.mkdir()
        self.folder.chmod(0o1777)
        self._script = shutil.copy(SCRIPT, folder)  # people may not enter every folder that a checkout is in

    def put(self, name: str, *, uid: int = ANN, days: float = 0, gib: int = 0) -> Path:
        """Put an image that was last used `days` days ago."""
        own = self.folder / str(uid)
        own.mkdir(exist_ok=True)
        own.chmod(0o700)
        image = own / name
        (image / "rootfs").mkdir(parents=True)
        (image / "rootfs/file").write_text("x" * 5000)
        (own / f"{name}.lock").touch()
        if gib:
            (own / f"{name}.size").write_text(f"{gib * GIB}\n")
        (image / "rootfs").chmod(0o500)
        for path in (own, *own.rglob("*")):
            os.chown(path, uid, uid)
        then = time.time() - days * DAY_S
        os.utime(image, (then, then))
        return image

    def expire(self, *, days: int = 0, gib: int = 0) -> str:
        argv = [self._script, self.folder, str(days), str(gib)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def left(self) -> set[str]:
        """Images, and what is no image; locks and sizes aside."""
        aside = (".lock", ".size")
        return {path.name for own in self.folder.iterdir() for path in own.iterdir() if path.suffix not in aside}


@pytest.fixture
def cache() -> Iterator[Cache]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Cache(Path(folder))


def test_an_image_that_nobody_used_for_days_goes(cache: Cache):
    cache.put("x86_64-old", days=8)
    cache.put("x86_64-new", days=6)
    cache.put("file-old", uid=BOB, days=9)
    said = cache.expire(days=7)
    assert cache.left() == {"x86_64-new"}
    assert re.sub(r"\d+ MiB", "N MiB", said).splitlines() == [
        "expire-images: file-old of uid 65432, N MiB, not used for 216 hours",
        "expire-images: x86_64-old of uid 65431, N MiB, not used for 192 hours",
    ]


def test_of_more_gib_those_go_that_were_used_the_longest_ago_whosever_they_are(cache: Cache):
    for name, uid, days in (("x-a", ANN, 4), ("x-b", BOB, 3), ("x-c", ANN, 2), ("x-d", BOB, 1)):
        cache.put(name, uid=uid, days=days, gib=10)
    cache.expire(gib=25)
    assert cache.left() == {"x-c", "x-d"}
    assert not [path for path in cache.folder.rglob("*.size") if path.stem in ("x-a", "x-b")]


def test_without_bounds_all_stay(cache: Cache):
    cache.put("x-old", days=1000, gib=1000)
    assert (cache.expire(), cache.left()) == ("", {"x-old"})


def test_what_was_used_within_hours_stays_however_much_it_is(cache: Cache):
    """Another node may have begun with it."""
    cache.put("x-now", days=2.9 / 24, gib=100)
    cache.put("x-before", days=3.1 / 24, gib=100)
    cache.expire(days=1, gib=1)
    assert cache.left() == {"x-now"}


def test_an_image_in_which_a_task_runs_stays_and_other_nodes_see_that(cache: Cache):
    image = cache.put("x-used", days=30)
    cache.put("x-unused", days=30)
    task = _task_in(image / "rootfs")
    try:
        cache.expire(days=7)
        assert cache.left() == {"x-used"}
        assert time.time() - image.stat().st_mtime < 60
    finally:
        task.kill()
        task.wait()


def test_an_image_that_a_task_takes_just_now_stays(cache: Cache):
    """run-image sets its time of use under the lock."""
    image = cache.put("x-taken", days=30)
    with subprocess.Popen(["flock", f"{image}.lock", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write(b"held\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == b"held\n"
        cache.expire(days=7)
        assert cache.left() == {"x-taken"}
        holder.stdin.close()
    cache.expire(days=7)
    assert cache.left() == set()


def test_folders_of_nobody_are_not_touched(cache: Cache):
    """In a folder that all may write to."""
    cache.put("x-old", days=30)
    cache.put("x-others", uid=BOB, days=30)
    (cache.folder / str(BOB)).chmod(0o777)
    (cache.folder / "3").symlink_to(cache.folder / str(ANN))
    os.chown(cache.folder / "3", 3, 3, follow_symlinks=False)
    cache.expire(days=7)
    assert (cache.folder / str(BOB) / "x-others").exists()
    assert not (cache.folder / str(ANN) / "x-old").exists()


def test_parts_of_an_import_that_never_ended_go_after_a_day(cache: Cache):
    cache.put("x-a.aB3dE6", days=2)
    cache.put("x-b.aB3dE6", days=0.5)
    cache.expire(days=7)
    assert cache.left() == {"x-b.aB3dE6"}


def _task_in(root: Path) -> subprocess.Popen[bytes]:
    """As run-container leaves one: a process whose root is the image's."""
    program = "import os, sys, time; os.chroot(sys.argv[1]); os.write(1, b'in\\n'); time.sleep(60)"
    task = subprocess.Popen(["python3", "-c", program, root], stdout=subprocess.PIPE)
    assert task.stdout is not None
    assert task.stdout.readline() == b"in\n"
    task.stdout.close()
    return task
