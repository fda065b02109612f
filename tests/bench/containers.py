"""How soon a job starts in a container with an image of 5 GB: srun --container-image on one node, then on others.

Real Slurm daemons and a registry run on one machine. The image comes over loopback; gzip makes it small. The cache that
nodes share is a folder on the machine's disk. The bench needs root, because the daemons change their user.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import random
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from tests.bench import report
from tests.bench.asked import Asked
from tests.integration.slurm import oci_archive
from tests.integration.slurm.oci_archive import Layer
from tests.integration.slurm.registry import Registry
from tests.integration.slurm.site import Site

_AGAIN_S: Final = 2.0
_IMPORT_S: Final = 900
_BLOCK: Final = 4096


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The files of the image, about 5 GB, and how often containers are started from it."""

    small: int = 40_000
    small_bytes: int = 16_384
    big: int = 13
    big_bytes: int = 350_000_000
    rounds: int = 20


def measure(asked: Asked) -> list[report.Figure]:
    """Time the import of the image, and starts on other nodes compared with a job without a container."""
    sizes = Sizes(small=1_000, big=2, rounds=3) if asked.quick else Sizes()
    with tempfile.TemporaryDirectory(prefix="sunkpy-containers-") as folder, Registry().serving() as registry:
        site = Site(Path(folder))
        try:
            asyncio.run(site.settle())
            cache = site.slurm.root / "var/cache/images"
            cache.mkdir()
            cache.chmod(0o1777)
            registry.trust(site.slurm.root)
            archive = Path(folder) / "image.tar"
            oci_archive.write(archive, site.slurm.root, layers=[_layer(sizes)])
            registry.push("team/big:1", archive)
            return _starts(site, f"--container-image=docker://localhost:{registry.port}/team/big:1", sizes)
        finally:
            site.stop()


def _layer(sizes: Sizes) -> Layer:
    """Return a layer of random files. The content that files of one size share is compressed only once."""
    chance, out, digest = random.Random(1), bytearray(), hashlib.sha256()
    for kind, count, size in (("small", sizes.small, sizes.small_bytes), ("big", sizes.big, sizes.big_bytes)):
        rest = chance.randbytes(_BLOCK) * (size // _BLOCK)
        packed = gzip.compress(rest, 1)
        for number in range(count):
            info = tarfile.TarInfo(f"opt/{kind}/{number % 500}/{number}")
            info.size = _BLOCK + len(rest)
            begin = info.tobuf() + chance.randbytes(512) + bytes(_BLOCK - 512)
            digest.update(begin)
            digest.update(rest)
            out += gzip.compress(begin, 1) + packed
    end = bytes(2 * tarfile.BLOCKSIZE)
    digest.update(end)
    return Layer(bytes(out + gzip.compress(end)), f"sha256:{digest.hexdigest()}")


def _starts(site: Site, image: str, sizes: Sizes) -> list[report.Figure]:
    first = _seconds(site, f"-w c1 {image}")
    nodes = [f"c{2 + number % 2}" for number in range(sizes.rounds)]
    pairs = [(_seconds(site, f"-w {node} {image}"), _seconds(site, f"-w {node}")) for node in nodes]
    again, plain = zip(*pairs, strict=True)
    what = f"srun → first line, image of {(sizes.small * sizes.small_bytes + sizes.big * sizes.big_bytes) / 1e9:.1f} GB"
    peer = ("without a container", plain)
    return [
        report.observed(f"{what}, first on a node, which imports it", first),
        *report.spread(f"{what}, again on another node", again, bounds=(_AGAIN_S, _AGAIN_S), peer=peer),
    ]


def _seconds(site: Site, flags: str) -> float:
    run = f"srun --quiet --mem=200 --time=15 {flags} bash -c 'echo in'"
    timed = f'began=$EPOCHREALTIME; {run} | {{ read -r line; echo "$line" "$began" "$EPOCHREALTIME"; }}'
    said = site.shell("ann", f"cd; {timed}", timeout_s=_IMPORT_S)[1]
    *word, began, came = said.splitlines()[-1].split()
    if word != ["in"]:
        raise RuntimeError(f"{run}: {said}")
    return float(came) - float(began)
