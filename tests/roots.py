"""Root folders made of our own images, for daemons that run without a kubelet.

As in a container a root is an overlay: each layer is unpacked once, below build/roots, and what is written goes into a
folder of its own. `discard` takes a root away, the end of the run all that are left.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from demo.stack import ROOT
from devcluster import mounts
from devcluster.state import locked

LAYERS: Final = ROOT / "build" / "roots" / "layers"
SUITE: Final = os.environ.get("SLURM_SUITE", "trixie")
"""`trixie`, `sid`, `source`: on trixie the Slurm that is compiled of the tarball `$SLURM_SOURCE`, or `base`: on the
image of a site that `$SLURM_BASE` names, IMAGE@sha256:…, the Slurm that its apt has, of release `$SLURM_RELEASE`.
"""
WRITTEN: Final = ROOT / "build" / "roots" / "written"
"""Has a folder `<pid>-…` for each root, with `upper` and `work` of its overlay."""
_OURS: dict[Path, Path] = {}
"""Roots of this process -> folder of `WRITTEN` where files go that are written to the root."""


def _version_of(tarball: str) -> str:
    """The version of the Slurm in a tarball, as its META says."""
    take = ["tar", "-xOf", tarball, "--occurrence=1", "--wildcards", "--no-wildcards-match-slash", "*/META"]
    meta = subprocess.run(take, check=True, capture_output=True, text=True).stdout
    return re.findall(r"^ *Version:\s*(\S+)", meta, re.MULTILINE)[0]


SOURCE: Final = os.environ["SLURM_SOURCE"] if SUITE == "source" else ""
BASE: Final = os.environ["SLURM_BASE"] if SUITE == "base" else ""
VERSIONS: Final = {"trixie": "24.11", "sid": "26.05"}
if SOURCE:
    VERSIONS["source"] = _version_of(SOURCE)
if BASE:
    VERSIONS["base"] = os.environ["SLURM_RELEASE"]
RELEASE: Final = ".".join(VERSIONS[SUITE].split(".")[:2])
"""The release of the Slurm that is tested: `24.11`."""
DEBIAN: Final = "trixie" if SUITE in ("source", "base") else SUITE
"""The Debian suite of everything else in the images."""
OF_SSSD: Final = DEBIAN if SUITE == "base" else SUITE
"""The suite of the image of sssd: SSSD of Ubuntu changes its user, which the chart lets no container do."""


def unpack(suite: str, wanted: Iterable[str], root: Path) -> None:
    """Lay images over each other in a folder. Missing images are built."""
    group = next((name for name in ("mariadb", "openldap") if name in wanted), "slurm")
    of, key = ["--suite", suite], suite
    if suite == "source":
        of, key = ["--suite", DEBIAN, "--slurm-source", SOURCE], f"{VERSIONS[suite]}-{DEBIAN}"
    elif suite == "base":
        name = BASE.partition("@")[0].rpartition("/")[2]
        of, key = ["--suite", DEBIAN, "--base", BASE], f"on-{re.sub('[^A-Za-z0-9_.-]', '-', name)}"
    subprocess.run([sys.executable, str(ROOT / "slurm-images/build"), *of, "--only", group], check=True, cwd=ROOT)
    images = json.loads((ROOT / "build/images/images.json").read_text())[key]
    (archive,) = {images[name]["archive"] for name in wanted}
    layers = _layers(Path(archive), {images[name]["ref"] for name in wanted})
    if not _OURS:
        forget_the_dead()
        atexit.register(discard_all)
    own = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=WRITTEN))
    for name in ("upper", "work"):
        (own / name).mkdir()
    (own / "upper").chmod(0o755)
    root.mkdir(parents=True)
    lower = ":".join(str(layer) for layer in reversed(layers))
    how = f"lowerdir={lower},upperdir={own}/upper,workdir={own}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", how, "overlay", str(root)], check=True)
    _OURS[root] = own


def discard(folder: Path) -> None:
    """Take away a folder with all roots in it; what still runs there keeps its files."""
    mounts.remove_all(folder)
    for root in [each for each in _OURS if each.is_relative_to(folder)]:
        shutil.rmtree(_OURS.pop(root))
    shutil.rmtree(folder)


def discard_all() -> None:
    """Take away the roots of this process."""
    for root in reversed(list(_OURS)):
        if root in _OURS:
            discard(root)


def _layers(archive: Path, refs: set[str]) -> list[Path]:
    """Folders of the layers of some images of an archive, the lowest first; each is unpacked once."""
    LAYERS.mkdir(parents=True, exist_ok=True)
    WRITTEN.mkdir(exist_ok=True)
    manifest = subprocess.run(["tar", "-xOf", archive, "manifest.json"], check=True, capture_output=True).stdout
    wanted = [each["Layers"] for each in json.loads(manifest) if refs & set(each["RepoTags"])]
    names = list(dict.fromkeys(layer for layers in wanted for layer in layers))
    folders = {name: LAYERS / Path(name).name.partition(".")[0][:16] for name in names}
    with locked(LAYERS / ".lock"):
        for name, folder in folders.items():
            if not folder.exists():
                _unpack_layer(archive, name, folder)
    return list(folders.values())


def _unpack_layer(archive: Path, layer: str, folder: Path) -> None:
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    take = f"tar -xOf {archive} {layer} | tar -x{'z' if _is_compressed(archive, layer) else ''} -C {part}"
    subprocess.run(["bash", "-o", "pipefail", "-c", f"{take} --exclude='.wh.*' --exclude='dev/*'"], check=True)
    part.rename(folder)


def _is_compressed(archive: Path, layer: str) -> bool:
    begin = subprocess.run(["bash", "-c", f"tar -xOf {archive} {layer} | head -c 2"], check=True, capture_output=True)
    return begin.stdout == b"\x1f\x8b"


def forget_the_dead() -> None:
    """Remove what killed runs have left. Other runs, which begin at the same time, wait."""
    with locked(LAYERS / ".lock"):
        mountinfo = Path("/proc/self/mountinfo").read_text()
        for own in WRITTEN.iterdir():
            if Path("/proc", own.name.partition("-")[0]).exists() or not own.exists():
                continue
            for line in mountinfo.splitlines():
                if f"upperdir={own}/upper" in line:
                    mounts.remove_all(Path(re.sub(r"\\040", " ", line.split()[4])))
            shutil.rmtree(own)
