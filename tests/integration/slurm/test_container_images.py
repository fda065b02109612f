"""srun --container-image with the flags of Pyxis, by our SPANK plugin in real Slurm and a registry of our own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait_until
from tests.integration.slurm import oci_archive
from tests.integration.slurm.oci_archive import OS_RELEASE
from tests.integration.slurm.registry import Registry
from tests.integration.slurm.site import Site

pytestmark = pytest.mark.integration

BOXES: Final = "/var/spool/slurmd/containers"
CACHE: Final = "var/cache/images"


class Images:
    """A site with a registry that has team/app:1."""

    def __init__(self, site: Site, registry: Registry, folder: Path) -> None:
        self.site, self.registry, self._folder = site, registry, folder
        self.root, self.home = site.slurm.root, site.slurm.root / "home/ann"

    def push(self, image: str) -> None:
        """An image of its own."""
        archive = self._folder / "image.tar"
        env = ("PATH=/opt/bin:/usr/bin:/bin", "GREETING=of the image", "PYTORCH_VERSION=2")
        entrypoint = ("sh", "-c", 'echo "entered by $0"; exec "$@"', "app")
        oci_archive.write(archive, self.root, env=env, folder="/work", entrypoint=entrypoint, more=image)
        self.registry.push(image, archive)

    def said(self, script: str, *, user: str = "ann") -> tuple[int, str]:
        """Exit code and output of a script in which `inside FLAG... COMMAND...` is a task on c1, of image $I."""
        begin = f'cd; R=localhost:{self.registry.port}; I=docker://$R/team/app:1; S="srun --quiet --mem=200"'
        return self.site.shell(user, f'{begin}; inside() {{ $S -w c1 --container-image="$I" "$@"; }}\n{script}')

    def layers(self, image: str) -> int:
        """How often its layer was downloaded."""
        return self.registry.downloads[self.registry.layer(image)]


@pytest.fixture(scope="module")
def images(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    with Registry().serving() as registry:
        images = Images(site, registry, tmp_path_factory.mktemp("image"))
        registry.trust(images.root)
        (images.root / CACHE).mkdir()
        (images.root / CACHE).chmod(0o1777)
        images.push("team/app:1")
        code, said = images.said("mkdir data; echo found > data/file; inside true")
        assert (code, said) == (0, f"container: importing docker://localhost:{registry.port}/team/app:1\n")
        yield images


FLAGS: Final = {
    "image": (
        "",
        "cat /etc/os-release; id -u; echo $GREETING $PATH",
        f"{OS_RELEASE}2001\nof the image /opt/bin:/usr/bin:/bin\n",
    ),
    "a variable of the job": ("", "echo $MINE $SLURM_JOB_NAME", "mine sh\n"),
    "a rank for PyTorch": ("-n 2 -l", "echo $RANK $LOCAL_RANK", "0: 0 0\n1: 1 1\n"),
    "a folder of the image": ("", "pwd", "/work\n"),
    "workdir": ("--container-workdir=/opt", "pwd", "/opt\n"),
    "workdir of home": ("--container-workdir=$PWD", "pwd", "/home/ann\n"),
    "mounts": ("--container-mounts=/home/ann/data:/data", "cat /data/file; touch /data/new; echo $?", "found\n0\n"),
    "a mount from here": ("--container-mounts=./data:/data/sub:ro+rprivate", "cat /data/sub/file", "found\n"),
    "a mount at its own place": ("--container-mounts=/home/ann/data/file", "cat /home/ann/data/file", "found\n"),
    "a file and tmpfs": ("--container-mounts=./data/file:/b,tmpfs:/c", "cat /b; touch /c/new; ls /c", "found\nnew\n"),
    "no writing": ("--container-mounts=./data:/data:ro", "touch /data/new; touch /new", "Read-only file system"),
    "writable": ("--container-writable", "echo 1 > /new; cat /new", "1\n"),
    "readonly": ("--container-readonly", "touch /new", "Read-only file system"),
    "remap-root": ("--container-remap-root", "id -u; cat /home/ann/data/file", "0\nfound\n"),
    "no-remap-root": ("--no-container-remap-root", "id -u", "2001\n"),
    "entrypoint": ("--container-entrypoint", "pwd", "entered by app\n/work\n"),
    "no-entrypoint": ("--no-container-entrypoint", "pwd", "/work\n"),
    "env": ("--container-env=GREETING,MINE", "echo $GREETING $MINE", "own mine\n"),
    "mount-home": ("--container-mount-home", "cat ~/data/file", "found\n"),
    "no-mount-home": ("--no-container-mount-home", "ls /home", ""),
    "PMI": (
        "--mpi=pmi2 -n 2 -l",
        "echo $PMI_RANK; [ -e /proc/self/fd/$PMI_FD ] && echo open",
        "0: 0\n0: open\n1: 1\n1: open\n",
    ),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flag(images: Images, name: str):
    flags, command, wanted = FLAGS[name]
    code, said = images.said(f"export MINE=mine GREETING=own; inside -J sh {flags} sh -c '{command}'")
    if "-l" in flags:
        said = "".join(sorted(said.splitlines(keepends=True)))
    if wanted.startswith("Read-only"):
        assert (code, wanted in said) == (1, True), said
    else:
        assert (code, said) == (0, wanted)


@pytest.mark.parametrize(
    "image",
    ["$R/team/app:1", "$R#team/app:1", "ann@$R#team/app:1", "docker://ann@$R#team/app:1", "docker://$R/team/app@$D"],
)
def test_names_of_images(images: Images, image: str):
    digest = images.registry.images["team/app:1"]
    assert images.said(f"D={digest}; I={image}; inside cat /more") == (0, "team/app:1")


def test_the_next_node_and_the_next_job_download_nothing(images: Images):
    before = images.layers("team/app:1")
    assert images.said("$S -w c2 --container-image=$I cat /more") == (0, "team/app:1")
    assert images.layers("team/app:1") == before == 1


def test_tasks_of_two_nodes_import_once(images: Images):
    images.push("team/many:1")
    run = "$S -w c1,c2 --ntasks-per-node=4 --container-image=$R#team/many:1 sh -c 'cat /more; echo'"
    code, said = images.said(run)
    assert (code, said.count("team/many:1\n"), images.layers("team/many:1")) == (0, 9, 1), said


def _in_one_job(images: Images, steps: str) -> tuple[int, str]:
    quoted = steps.replace("'", "'\"'\"'")
    return images.said(f"export -f inside; export I S; salloc --quiet -n 2 --mem=200 -w c1 bash -c '{quoted}'")


def test_a_writable_container_is_one_for_all_tasks_and_gone_after_the_step(images: Images):
    wait = "until [ -e /made-0 ] && [ -e /made-1 ]; do sleep 0.1; done; echo seen"
    writing = f"inside --container-writable sh -c 'touch /made-$SLURM_PROCID; {wait}'"
    box = f"{BOXES}/$SLURM_JOB_ID-images"
    code, said = _in_one_job(images, f"{writing}; inside -n 1 ls -d /made-1; $S -n 1 -w c1 ls -d {box} {box}/0")
    assert (code, said.count("seen\n"), said.count("No such file")) == (2, 2, 2), said


def test_a_named_container_stays_for_the_job(images: Images):
    steps = (
        "S='srun --quiet -n 1 -w c1'; inside --container-name=mine sh -c 'echo kept > /new'",
        "$S --container-name=mine:exec cat /new; inside --container-name=mine cat /new",
        "$S --container-name=mine --container-readonly touch /new2",
        "inside --container-name=mine:create true",
    )
    code, said = _in_one_job(images, "; ".join(steps))
    assert (code, said.count("kept\n"), "Read-only file system" in said) == (125, 2, True), said
    assert "container: container mine is there already on c1" in said
    code, said = images.said("$S -w c1 --container-name=mine cat /new")
    assert (code, "no container mine of this job on c1: make it with --container-image" in said) == (125, True), said


def test_a_command_is_looked_for_in_the_image_alone(images: Images):
    """The node has another `id`, and Slurm has found that."""
    make = "inside -n 1 --container-name=own sh -c 'mkdir /opt/bin; echo echo own > /opt/bin/id; chmod +x /opt/bin/id'"
    link = f"$S -n 1 -w c1 ln -s /opt/bin/id {BOXES}/$SLURM_JOB_ID-images/name-own/rootfs/linked"
    run = "S='srun --quiet -n 1 -w c1 --container-name=own'; $S id; $S /linked"
    assert _in_one_job(images, f"{make}; {link}; {run}") == (0, "own\nown\n")
    assert "127" in images.said("inside python3 --version")[1]


def test_input_arrives(images: Images):
    assert images.said("echo in | inside cat") == (0, "in\n")


def test_a_saved_container_is_an_image(images: Images):
    save = "inside --container-writable --container-save=saved.sqsh sh -c 'echo mine > /new'"
    code, said = images.said(
        f"{save}; I=./saved.sqsh; inside sh -c 'cat /new; echo $GREETING; pwd'; stat -c %U saved.sqsh"
    )
    assert (code, said) == (
        0,
        "container: saved as /home/ann/saved.sqsh\ncontainer: importing ./saved.sqsh\nmine\nof the image\n/work\nann\n",
    )


def test_a_squashfs_file_of_enroot_is_an_image(images: Images):
    rc = """etc/rc f 755 0 0 echo 'cd "/opt" && unset OLDPWD || exit 1'"""
    environment = "etc/environment f 644 0 0 echo GREETING=of enroot"
    (images.home / "pseudo").write_text(f"{rc}\n{environment}\n")
    make = (
        f"mksquashfs $(ls -d /{CACHE}/2001/x86*[0-9a-f] | head -n 1)/rootfs enroot.sqsh -pf pseudo -quiet -no-progress"
    )
    code, said = images.said(f"{make} > made 2>&1 || cat made; I=./enroot.sqsh; inside sh -c 'echo $GREETING; pwd'")
    assert (code, said) == (0, "container: importing ./enroot.sqsh\nof enroot\n/opt\n"), said


def test_what_cannot_be_saved_is_told(images: Images):
    code, said = images.said("inside --container-save=/etc/saved true")
    assert (code, said) == (0, "container: not saved: /etc is no folder that you may write to\n")


def test_what_was_killed_is_not_saved(images: Images):
    """It is told for sure after another signal than KILL and TERM: then srun waits for the last output of the step."""
    killed = "inside --container-save=killed.sqsh sh -c 'kill -{} $$'"
    _, said = images.said(f"{killed.format('KILL')}; {killed.format('USR1')}; ls killed.sqsh*")
    assert "container: not saved: a task was ended by a signal" in said
    assert "cannot access 'killed.sqsh*'" in said


def test_a_batch_script_in_a_container(images: Images):
    image = f"localhost:{images.registry.port}\\#team/app:1"
    lines = f"#!/bin/bash\n#SBATCH --container-image={image}\n#SBATCH --container-mounts=/home/ann/data:/data\n"
    (images.home / "job").write_text(f"{lines}cat /more /data/file; pwd; exit 3\n")
    code, _ = images.said("sbatch --quiet --wait --mem=200 -w c1 -o out job")
    assert (code, (images.home / "out").read_text()) == (3, "team/app:1found\n/work\n")


REFUSED: Final = {
    "inside --container-mounts=/nowhere:/x true": "container: /nowhere does not exist on c1, or you may not read it",
    "inside --container-workdir=/nowhere true": "container: the container has no folder /nowhere",
    "I=docker://$R/team/none:1 inside true": "container: no image docker://localhost:PORT/team/none:1 in its registry",
    "I=docker://localhost:9/a inside true": "container: the registry of docker://localhost:9/a cannot be reached",
    "I=./none.sqsh inside true": "container: ./none.sqsh does not exist on c1, or you may not read it",
    "I=./data/file inside true": "container: ./data/file is no squashfs file, and no folder of import-image",
    "I=./data inside true": "container: ./data is not a bundle with a config.json: import-image makes one",
    "I=dockerd://a inside true": "error: --container-image: nodes have no Docker: push dockerd://a to a registry",
    "$S --container-mounts=/a:/b true": "error: --container-mounts needs --container-image, or --container-name",
    "$S --container-writable true": "error: --container-writable needs --container-image, or --container-name",
    "inside --container-writable --container-readonly true": (
        "error: --container-writable is given together with its opposite"
    ),
    "inside --container-mounts=data:/data true": "error: --container-mounts: data is no path: SRC is /a/path, ./a/path",
    "inside --container-mounts=/a:../b true": "error: --container-mounts: ../b is no place in a container",
    "inside --container-mounts=/a:/b:sync true": "error: --container-mounts: flag sync of /a is not known: ro, rw",
    "inside --container-name=../x true": "error: --container-name: ../x: a name has letters, digits and ._-",
    "$S --container-name=x:create true": "error: --container-name: x:create makes a new container: name its image",
    "inside --container-workdir=x true": "error: --container-workdir: x must begin with /",
    "inside --container-save=/x/ true": "error: --container-save: /x/ is a folder: name a file",
    "sbatch --container-image=a --container-env=a=b --wrap=true": "error: --container-env: a=b: names of variables",
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_goes_wrong_is_told_in_words(images: Images, command: str):
    code, said = images.said(command)
    assert REFUSED[command].replace("PORT", str(images.registry.port)) in said, said
    assert code in ((125,) if REFUSED[command].startswith("container: ") else (1, 255))


def test_the_first_task_alone_tells_what_is_wrong(images: Images):
    code, said = images.said("I=./none inside -n 4 true")
    assert (code, said.count("container: ./none does not exist")) == (125, 1), said


ATTACKS: Final = {
    "a folder of root": "inside --container-mounts=/root:/x ls /x",
    "Slurm's key": "inside --container-mounts=/etc/slurm/slurm.key:/x cat /x",
    "a secret, as root": "inside --container-remap-root --container-mounts=/home/eve:/x cat /x/secret",
    "a mount": "inside --container-remap-root mount -t tmpfs none /mnt",
    "a setuid file": "inside --container-remap-root --container-writable sh -c "
    "'cp /bin/cat /x; chmod u+s /x; /x /home/eve/secret'",
    "the cache of others": f"inside --container-remap-root ls /{CACHE}/2002",
    "boxes": f"inside --container-remap-root sh -c 'touch {BOXES}/x'",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_is_gained(images: Images, name: str):
    eve = images.root / "home/eve"
    eve.chmod(0o700)
    (eve / "secret").write_text("eve's\n")
    (images.root / "root").chmod(0o700)
    (images.root / "root/rooted").touch()
    images.said("inside true", user="bob")
    code, said = images.said(ATTACKS[name])
    assert code != 0
    assert "eve's" not in said
    assert "rooted" not in said


def test_a_place_in_the_image_that_leads_outside_gets_no_mount(images: Images):
    code, said = images.said("inside --container-mounts=./data:/links/out/made true")
    assert (code, "container: ./data cannot be mounted at /links/out/made" in said) == (125, True), said
    assert not (images.root / "var/tmp/made").exists()


def test_a_cache_that_somebody_else_has_prepared_is_not_used(images: Images):
    folder = images.root / CACHE / "2002"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chown(folder, 2001, 2001)
    code, said = images.said("inside true", user="bob")
    assert (code, f"/{CACHE}/2002 must be a folder that only you may enter" in said) == (125, True), said
    os.chown(folder, 2002, 2002)  # moved here from a place where others may write, as it may
    folder.chmod(0o775)
    assert "must be a folder that only you may enter" in images.said("inside true", user="bob")[1]
    folder.rmdir()
    folder.symlink_to("2001")
    assert "must be a folder that only you may enter" in images.said("inside true", user="bob")[1]
    folder.unlink()


def test_root_leads_nowhere_where_a_user_has_put_a_link(images: Images):
    """The user can change only their own folder."""
    tries = ("mv $B $B.old", "rm -rf $B", "ln -s /home/eve $B.new", "ln -s /home/eve $B/0")
    swap = f"B={BOXES}/$SLURM_JOB_ID-images; {'; '.join(tries)}"
    _, said = _in_one_job(images, f"inside true; $S -w c1 bash -c '{swap}'; inside --container-writable true")
    assert (images.root / "home/eve").is_dir()
    assert (images.root / "home/eve").stat().st_uid == 2003
    assert said.count("Permission denied") >= 2, said


def test_nothing_is_left_after_the_job(images: Images):
    images.said("inside --container-name=a --container-writable sh -c 'mkdir /x; chmod 0 /x'")
    runs = "until squeue --me --noheader --states=RUNNING | grep -q .; do sleep 0.1; done; sleep 2"
    images.said(f"$S -w c1 --container-image=$I sleep 60 & {runs}; scancel --me; wait")

    def is_empty() -> bool:
        return images.said(f"$S -w c1 ls -A {BOXES}") == (0, "")

    assert wait_until(is_empty, timeout_s=20, every_s=0.5)
