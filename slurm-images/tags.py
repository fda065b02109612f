"""Computes the tags of images: hashes of the lines and files of a Dockerfile, and of the versions of packages."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of a Dockerfile: its base (the word after FROM), and its lines."""

    base: str
    lines: tuple[str, ...]

    @property
    def copied(self) -> list[str]:
        """The files that the stage copies from the build context."""
        copies = [line.split() for line in self.lines if line.startswith("COPY ")]
        return [source for words in copies if not words[1].startswith("--") for source in words[1:-1]]

    @property
    def taken_from(self) -> list[str]:
        """The other stages from which the stage copies files."""
        return [line.split()[1].removeprefix("--from=") for line in self.lines if line.startswith("COPY --from=")]


def fingerprint(inputs: Iterable[Path], *, root: Path, salt: str = "") -> str:
    """Return twelve hex digits that change with the path, mode or content of any file in or below the inputs."""
    digest = hashlib.sha256(salt.encode())
    for file in sorted(files_in(inputs)):
        executable = os.access(file, os.X_OK)
        digest.update(f"\0{file.relative_to(root)}\0{executable}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def files_in(inputs: Iterable[Path]) -> Iterator[Path]:
    """Yield the inputs that are files, and all files below the inputs that are folders."""
    for path in inputs:
        if path.is_dir():
            yield from (file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        else:
            yield path


def read_stages(dockerfile: str) -> dict[str, Stage]:
    """Return the stages of a Dockerfile by name. Lines before the first stage belong to each; comments are left out."""
    lines = [line for line in dockerfile.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    stages: dict[str, Stage] = {}
    head: list[str] = []
    name = ""
    for line in lines:
        words = line.split()
        if words[0] == "FROM":
            name = words[-1]
            stages[name] = Stage(base=words[1], lines=(*head, line))
        elif name:
            stages[name] = replace(stages[name], lines=(*stages[name].lines, line))
        else:
            head.append(line)
    return stages


def final_ref(ref: str, packages: Mapping[str, str]) -> str:
    """Return the final reference of an image with these packages; other versions give another reference."""
    name, _, inputs = ref.rpartition("-")
    versions = [f"{package}={version}" for package, version in sorted(packages.items())]
    return f"{name}-{hashlib.sha256(chr(10).join([inputs, *versions]).encode()).hexdigest()[:12]}"
