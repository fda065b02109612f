"""Jobs in containers: a bundle is made of an image in the login container, and run by real Slurm."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.container import start
from tests.integration.slurm import oci_archive
from tests.integration.slurm.site import Site
from tests.roots import unpack

pytestmark = pytest.mark.integration

SUITE: Final = os.environ.get("SLURM_SUITE", "trixie")
BUNDLE: Final = "/home/ann/images/test"
AS_ANN: Final = ("--reuid=2001", "--regid=2001", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
IMPORT: Final = f"#!/bin/bash\ncd && import-image oci-archive:image.tar {BUNDLE} && echo imported\n"


def fresh(folder: Path) -> None:
    """An empty folder, also when a test is tried once more."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


class Containers:
    """Runs commands in containers of a site where ann has a bundle."""

    def __init__(self, site: Site) -> None:
        self.site, self.home = site, site.slurm.root / "home/ann"

    def said(self, script: str, *, user: str = "ann") -> tuple[int, str]:
        """Exit code and output of a script of bash in which `inside` is a task on node c1 with the bundle."""
        begin = f'cd; B={BUNDLE}; inside() {{ srun --quiet --mem=100 -w c1 --container="$B" "$@"; }}'
        return self.site.shell(user, f"{begin}\n{script}")

    def bundle(self, name: str, **changes: object) -> str:
        """One with the root of ann's and another config.json."""
        fresh(self.home / name)
        config = json.loads((self.home / "images/test/config.json").read_text())
        config |= {"root": {"path": f"{BUNDLE}/rootfs"}, **changes}
        (self.home / name / "config.json").write_text(json.dumps(config))
        return f"/home/ann/{name}"


@pytest.fixture(scope="module")
def containers(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Containers:
    folder, home = tmp_path_factory.mktemp("login"), site.slurm.root / "home/ann"
    unpack(SUITE, ("login",), folder / "root")
    (folder / "home").symlink_to(site.slurm.root / "home")
    env = ("PATH=/opt/bin:/usr/bin:/bin", "GREETING=of the image", "HOME=/root")
    oci_archive.write(home / "image.tar", site.slurm.root, env=env, folder="/work")
    (home / "import").write_text(IMPORT)
    (home / "import").chmod(0o755)
    mounts = ("tmpfs:tmp", "home:home")
    made = start(folder, "../../../home/ann/import", mounts=mounts, rights=AS_ANN, env={"HOME": "/home/ann"})
    assert made.wait(timeout=60) == 0, (folder / "log").read_text()
    return Containers(site)


@pytest.fixture
def driver(site: Site) -> Iterator[Path]:
    """A library of one, for as long as a test wants it."""
    file = site.slurm.root / "usr/lib/x86_64-linux-gnu/libcuda.so.1"
    file.write_text("the node's driver\n")
    yield file
    file.unlink()


def test_a_task_is_in_the_image_as_its_user_with_home_and_environment(containers: Containers):
    script = "cat /etc/os-release; id -un; id -u; pwd; touch made; echo $GREETING $MINE $HOME $PATH $SLURM_JOB_NAME"
    code, said = containers.said(f"mkdir -p work; cd work; export MINE=mine; inside -J test bash -c '{script}'")
    wanted = (
        'NAME="Of an image"|ID=image|ann|2001|/home/ann/work|of the image mine /home/ann /opt/bin:/usr/bin:/bin test'
    )
    assert (code, said.splitlines()) == (0, wanted.split("|"))
    assert (containers.home / "work/made").stat().st_uid == 2001


def test_arguments_and_input_arrive_as_they_are(containers: Containers):
    words = ["it's", "a' 'b", '"', "' # '", "$(id)", "%j %@", "two\nlines", "", "é"]
    (containers.home / "words").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    loop = 'cat; for word; do echo "<$word>"; done'
    code, said = containers.said(f"mapfile -d '' -t w < words; echo in | inside bash -c '{loop}' - \"${{w[@]}}\"")
    assert (code, said) == (0, "in\n" + "".join(f"<{word}>\n" for word in words))


def test_codes_are_those_of_the_command(containers: Containers):
    tries = (
        "inside bash -c 'exit 7'",
        "inside bash -c 'kill -TERM $$; sleep 9'",
        "inside nothere",
        "B=/tmp inside true",
    )
    script = "; ".join(f"{each} > /dev/null 2>&1; echo $?" for each in tries)
    assert containers.said(script) == (0, "7\n143\n127\n125\n")
    assert "import-image makes one" in containers.said("B=/tmp inside true")[1]


def test_tasks_on_several_nodes(containers: Containers):
    show = "read name < /etc/os-release; echo $SLURM_PROCID $SLURMD_NODENAME $name"
    srun = f"srun --quiet --mem=100 -w c1,c2 --ntasks-per-node=2 --container={BUNDLE}"
    code, said = containers.said(f"{srun} bash -c '{show}'")
    lines = [line.split(" ", 2) for line in said.splitlines()]
    assert (code, sorted(rank for rank, _, _ in lines)) == (0, list("0123")), said
    assert sorted(node for _, node, _ in lines) == ["c1", "c1", "c2", "c2"]
    assert {name for _, _, name in lines} == {'NAME="Of an image"'}


def test_tasks_that_are_the_first_in_a_bundle_all_see_the_files_of_the_node(containers: Containers):
    """A task that made the mount points of files again would remove what other tasks have mounted there."""
    make = "rm -rf first; cp -a images/test first; rm first/rootfs/etc/passwd; ln -sf nowhere first/rootfs/etc/hosts"
    srun = "srun --quiet --mem=50 -w c1,c2 --ntasks-per-node=4 --overcommit --container=$HOME/first"
    show = "mapfile lines < /etc/hosts; echo ${#lines[@]} $(id -un)"
    once = f"{make}; {srun} bash -c {shlex.quote(show)}"
    code, said = containers.said(f"for _ in {{1..6}}; do {once} || exit 1; done; wc -l < /etc/hosts")
    *lines, hosts = said.splitlines()
    assert (code, set(lines), len(lines)) == (0, {f"{hosts} ann"}, 48), said


def test_a_batch_script_in_a_container(containers: Containers):
    (containers.home / "job").write_text("#!/bin/bash\ncat /etc/os-release\necho $1\nexit 3\n")
    code, _ = containers.said(f'sbatch --quiet --wait --mem=100 -w c1 -o out --container={BUNDLE} job "it\'s"')
    assert (code, (containers.home / "out").read_text()) == (3, f"{oci_archive.OS_RELEASE}it's\n")


def test_a_signal_reaches_the_program_itself(containers: Containers):
    trap = 'trap "echo told > told; exit 0" TERM; touch on; while :; do sleep 0.1; done'
    (containers.home / "loop").write_text(f"#!/bin/bash\n{trap}\n")
    submit = f"sbatch --parsable --mem=100 -w c1 -o out --container={BUNDLE} loop"
    wait = "for _ in {1..200}; do [ -e on ] && break; sleep 0.1; done"
    script = f"rm -f on told; j=$({submit}); {wait}; scancel --full --signal=TERM $j; srun -d afterany:$j --mem=10 true"
    code, said = containers.said(script)
    assert (code, (containers.home / "told").exists()) == (0, True), said
    begin = "rm -f on; inside bash -c 'touch on; exec sleep 4244' & " + wait
    containers.said(f"{begin}; scancel --me; wait")
    assert wait_until(lambda: not containers.site.slurm.running("sleep 4244"), timeout_s=20)


def test_a_task_may_have_a_terminal(containers: Containers):
    begin = "export -f inside; export B SHELL=/bin/bash"
    code, said = containers.said(f"{begin}; script -qec 'inside --pty bash -c \"[ -t 0 ] && id -un\"' /dev/null")
    assert (code, said.strip().endswith("ann")) == (0, True), said


def test_whoever_may_read_a_bundle_may_run_it_and_change_nothing_in_it(containers: Containers):
    containers.said("chmod 755 . images images/test")
    code, said = containers.said("inside id -un; inside touch /new; echo $?", user="bob")
    assert (code, said.splitlines()[0], said.splitlines()[-1]) == (0, "bob", "1"), said
    containers.said("inside touch /new")
    assert (containers.home / "images/test/rootfs/new").stat().st_uid == 2001


def _bound(source: str, destination: str, *options: str) -> dict[str, object]:
    return {"source": source, "destination": destination, "type": "none", "options": ["rbind", *options]}


def test_mounts_of_a_bundle_and_what_is_read_only_among_them(containers: Containers):
    for folder in (containers.home / "data", containers.site.slurm.root / "mnt/shared"):
        fresh(folder)
        (folder / "file").write_text("found\n")
    mounts = [_bound("/home/ann/data", "/data", "ro"), _bound("/mnt/shared", "/mnt/shared")]
    bundle = containers.bundle("mounting", mounts=mounts)
    code, said = containers.said(f"B={bundle} inside bash -c 'cat /mnt/shared/file /data/file; touch /data/new 2>&1'")
    assert (code, said.splitlines().count("found"), "Read-only" in said) == (1, 2, True), said


def test_nothing_is_mounted_where_a_link_of_the_image_leads(containers: Containers):
    bundle = containers.bundle("leading", mounts=[_bound("/home/ann", "/links/out/made")])
    code, said = containers.said(f"B={bundle} inside true")
    assert (code, "/home/ann cannot be mounted at /links/out/made, as config.json" in said) == (125, True), said
    assert not (containers.site.slurm.root / "var/tmp/made").exists()


def test_the_libraries_of_the_driver_are_those_of_the_node(containers: Containers, driver: Path):
    script = "cat /usr/local/nvidia/lib64/libcuda.so.1; echo $LD_LIBRARY_PATH $PATH; ls -d /dev/null"
    code, said = containers.said(f"inside bash -c '{script}'")
    paths = "/usr/local/nvidia/lib64 /opt/bin:/usr/bin:/bin:/usr/local/nvidia/bin"
    assert (code, said.splitlines()) == (0, ["the node's driver", paths, "/dev/null"])


@pytest.mark.parametrize(
    "attempt",
    [
        "cat /etc/slurm/slurm.key",
        "cat /proc/1/root/keys/slurm.key",
        "cat /proc/1/environ",
        "cat /var/spool/slurmd/cred_state",
        "cat /home/eve/secret",
        "mount -t tmpfs none /mnt",
        "unshare --map-root-user cat /home/eve/secret",
        "touch /home/eve/file",
        "touch /var/spool/slurmd/file",
        "touch /var/spool/slurmd/containers/file",
        "touch /proc/sys/kernel/core_pattern",
        "chmod u+s /home/eve/secret",
    ],
)
def test_nothing_is_gained_inside(containers: Containers, attempt: str):
    eve = containers.home.parent / "eve"
    eve.chmod(0o700)
    (eve / "secret").write_text("eve's\n")
    code, said = containers.said(f"inside {attempt}")
    assert code != 0
    assert "eve's" not in said
    assert not (eve / "file").exists()


def test_what_a_bundle_names_is_what_its_user_may_read(containers: Containers):
    key = _bound("/etc/slurm/slurm.key", "/key")
    hook = {"path": "/usr/bin/touch", "args": ["touch", "/home/ann/hooked"]}
    bundle = containers.bundle("greedy", mounts=[key], hooks={"createRuntime": [hook], "poststop": [hook]})
    code, said = containers.said(f"B={bundle} inside cat /key")
    assert (code, "Permission denied" in said) == (1, True), said
    assert not (containers.home / "hooked").exists()


def test_nothing_of_a_bundle_is_read_by_root(containers: Containers):
    config = Path(containers.home, containers.bundle("closed").rpartition("/")[2], "config.json")
    config.chmod(0o600)
    code, said = containers.said("B=/home/ann/closed inside true")
    assert (code, "cannot be read" in said) == (125, True), said


def _on_node(pid: int, uid: int, gid: int, *command: str) -> tuple[int, str]:
    """Exit code and output of a command where a process is, as somebody."""
    there = ["nsenter", f"--target={pid}", "--mount", "--root", "--wd"]
    person = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    done = subprocess.run([*there, *person, *command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


FIND: Final = ("find", "/var/spool/slurmd/containers", "-name", "environment")


def test_a_task_that_is_not_in_its_container_yet(containers: Containers):
    """It waits for its config.json: whom it trusts with its environment, what it knows of slurmd, and how it ends."""
    fresh(containers.home / "waiting")
    os.mkfifo(containers.home / "waiting/config.json", 0o644)
    waits = ".*/usr/local/bin/run-container --inside 2001 .*/home/ann/waiting.*"
    code, said = containers.said("sbatch --parsable --mem=100 -w c1 -o out --container=/home/ann/waiting import")
    try:
        assert (code, wait_until(lambda: bool(containers.site.slurm.running(waits)), timeout_s=20)) == (0, True), said
        pid = containers.site.slurm.running(waits)[0]
        assert b"SUNKPY" not in Path(f"/proc/{pid}/environ").read_bytes()
        code, file = _on_node(pid, 2001, 2001, *FIND)
        assert (code, file.count("/environment\n")) == (0, 1), file
        assert "HOME=/home/ann" in _on_node(pid, 2001, 2001, "cat", file.strip())[1].split("\0")
        for uid, gid in ((2002, 2001), (2002, 2002)):
            assert "Permission denied" in _on_node(pid, uid, gid, "cat", file.strip())[1], "whoever has ann's group"
            assert _on_node(pid, uid, gid, "touch", f"{Path(file).parent}/new")[0] == 1
    finally:
        containers.said(f"scancel {said.strip()}")
    assert wait_until(lambda: not containers.site.slurm.running(waits), timeout_s=20)


def _is_swept(containers: Containers) -> bool:
    """Nothing that Slurm gave to containers is on the node any more."""
    return containers.said("srun --quiet --mem=10 -w c1 ls -A /var/spool/slurmd/containers") == (0, "")


def test_nothing_of_a_container_outlives_its_job(containers: Containers):
    code, said = containers.said("inside bash -c 'set -m; sleep 4246 < /dev/null > /dev/null 2>&1 & echo left'")
    assert (code, said) == (0, "left\n")
    assert wait_until(lambda: not containers.site.slurm.running("sleep 4246"), timeout_s=20)
    assert wait_until(lambda: _is_swept(containers), timeout_s=20, every_s=0.5)


def test_root_deletes_nothing_where_a_user_leads_it(containers: Containers):
    other = containers.home.parent / "eve/own"
    fresh(other)
    (other / "environment").write_text("eve's\n")
    find = "find /var/spool/slurmd/containers/$SLURM_JOB_ID-0 -mindepth 1 -type d -empty"
    lead = f'd=$({find}); rmdir "$d" && ln -s /home/eve/own "$d" && echo led'
    srun = f"srun --quiet --overlap --container={BUNDLE} bash -c 'touch on; until [ -e led ]; do sleep 0.1; done'"
    wait = "for _ in {1..200}; do [ -e on ] && break; sleep 0.1; done"
    job = f"#!/bin/bash\nrm -f on led; {srun} & {wait}\n{lead}\ntouch led\nwait\n"
    (containers.home / "leading-job").write_text(job)
    code, said = containers.said("sbatch --quiet --wait --mem=100 -w c1 -o out leading-job; cat out")
    assert (code, said) == (0, "led\n"), said
    assert wait_until(lambda: _is_swept(containers), timeout_s=20, every_s=0.5)
    assert (other / "environment").exists()
