"""Builds operators from their modules, and makes their images in the cache."""

import shutil
from pathlib import Path

from devcluster import packages
from devcluster.binaries import Binaries, Product, Progress, pinned
from devcluster.images import OneFile, write_archive
from devcluster.operators.catalog import Operator
from devcluster.operators.program import TOOLS_IMAGE, Program, image_of
from devcluster.shell import run

TOOLS_PACKAGE = {"busybox": "busybox-static"}


def product(operator: Operator) -> Product:
    """Return the product of an operator: its programs, built in a Go module that pins only the operator's version."""
    return pinned(
        operator.name,
        operator.version,
        module=operator.module,
        packages=tuple(program.full_package(operator.module) for program in operator.programs),
        replaces=operator.replaces,
        env=operator.go_env,
    )


def build(binaries: Binaries, operators: list[Operator], *, progress: Progress) -> list[Path]:
    """Build the missing operators, and return the archives of all their images."""
    binaries.ensure([product(operator) for operator in operators], progress=progress)
    packages.ensure(TOOLS_PACKAGE, progress=progress)
    return [
        _tools_archive(binaries),
        *(_archive(binaries, operator, program) for operator in operators for program in operator.programs),
    ]


def _archive(binaries: Binaries, operator: Operator, program: Program) -> Path:
    folder = binaries.folder(product(operator))
    archive = folder / f"{program.name}.tar"
    if not archive.exists():
        image = image_of(operator.name, program, operator.version)
        write_archive(archive, image, folder / program.built_as(operator.module))
    return archive


def _tools_archive(binaries: Binaries) -> Path:
    """Return the archive of an image with busybox under the names of all its tools, as in the official image."""
    archive = binaries.cache / "bin" / "busybox.tar"
    if not archive.exists():
        program = shutil.which("busybox")
        assert program is not None  # packages.ensure has installed it
        links = tuple(f"/bin/{name}" for name in run([program, "--list"]).split() if name != "busybox")
        write_archive(archive, OneFile(tag=TOOLS_IMAGE, path="/bin/busybox", links=links), Path(program))
    return archive
