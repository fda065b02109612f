"""Downloads a release archive of programs over HTTP, and checks it against a pinned checksum.

The checksum does not come from the archive's server. So it protects against a broken download, a proxy that answers
something else, and a replaced archive. An archive that does not match is not unpacked.
"""

import hashlib
import os
import platform
import shutil
import tarfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError

MIB = 1 << 20
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}
"""Name of an architecture in Linux -> its name in Go and in release archives."""
SUMS: Mapping[int, str] = {64: "sha256", 128: "sha512"}
"""The hash of a checksum by its number of digits."""


class Release(msgspec.Struct, frozen=True):
    """A release archive, below an address. `folder`: the programs' folder in the archive; empty for its root.

    `{arch}` in `archive` and `folder` is a key of `sums`, the published SHA-256 or SHA-512; `{cpu}` is the same, except
    that amd64 is called x86_64. The environment variable `setting` replaces the address.
    """

    address: str
    setting: str
    archive: str
    folder: str
    sums: Mapping[str, str]

    @property
    def url(self) -> str:
        """The URL of the archive for this machine."""
        address = os.environ.get(self.setting) or self.address
        return f"{address.rstrip('/')}/{_named(self.archive)}"

    def member(self, program: str) -> str:
        """Return the path of a program in the archive."""
        return "/".join(filter(None, (_named(self.folder), program)))


class Unavailable(DevclusterError):
    """The programs cannot be downloaded from the release."""


def fetch(
    release: Release,
    programs: Iterable[str],
    *,
    into: Path,
    progress: Callable[[str], None],
    silence_s: float = 10,
    limit_s: float = 600,
) -> None:
    """Download a release, and unpack the programs into a folder.

    Raises:
        Unavailable: there is no archive for this machine, the server cannot be reached or sent nothing for `silence_s`,
            the download took longer than `limit_s`, or the checksum differs.
    """
    pinned, url, archive = release.sums.get(_architecture()), release.url, into / "archive"
    if pinned is None:
        raise Unavailable(f"{url} is not released for this machine")
    kind = SUMS[len(pinned)]
    try:
        _download(url, archive, progress=progress, silence_s=silence_s, limit_s=limit_s)
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, kind).hexdigest()
        if found != pinned:
            raise Unavailable(f"{url} is refused: its {kind} is {found[:12]}…, and {pinned[:12]}… is pinned")
        with tarfile.open(archive) as contents:
            for program in programs:
                _unpack(contents, release.member(program), into / program)
    except (OSError, HTTPException, ValueError, KeyError) as error:
        raise Unavailable(f"{url} cannot be downloaded: {error}") from error
    finally:
        archive.unlink(missing_ok=True)


def _architecture() -> str:
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)


def _named(template: str) -> str:
    architecture = _architecture()
    return template.format(arch=architecture, cpu="x86_64" if architecture == "amd64" else architecture)


def _download(
    url: str, target: Path, *, progress: Callable[[str], None], silence_s: float, limit_s: float, every_s: float = 10
) -> None:
    """Download a URL into a file."""
    begin = told = time.monotonic()
    with urllib.request.urlopen(url, timeout=silence_s) as answer, target.open("wb") as file:
        size, so_far = int(answer.headers.get("Content-Length") or 0), "nothing"
        while piece := answer.read1(MIB):
            file.write(piece)
            so_far, now = f"{file.tell() // MIB} of {size // MIB} MiB", time.monotonic()
            if now - begin > limit_s:
                raise TimeoutError(f"only {so_far} came in {limit_s:g} s")
            if now - told > every_s:
                told = now
                progress(f"downloading {url}: {so_far}")
        if file.tell() < size:
            raise ConnectionError(f"it ended after {so_far}")


def _unpack(contents: tarfile.TarFile, name: str, target: Path) -> None:
    program = contents.extractfile(name)
    assert program is not None
    with program, target.open("wb") as file:
        shutil.copyfileobj(program, file)
    target.chmod(0o755)
