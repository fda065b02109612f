"""Workloads as people write them and operators make them, and what each becomes in Slurm: `expected.yaml`.

They are written for these tests after the APIs of the operators, with the fields that count. `$SUNKPY_MANIFESTS` names
a further folder of the same form, such as the operators' own examples. Tests that compare with `expected.yaml` run for
both folders, as far as the further one has their files; the bench `families` then takes that one.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Final

import msgspec
import yaml

OWN: Final = Path(__file__).resolve().parent
FURTHER: Final = Path(os.environ["SUNKPY_MANIFESTS"]).resolve() if os.environ.get("SUNKPY_MANIFESTS") else None
FOLDERS: Final = {"own": OWN} | ({} if FURTHER is None else {"further": FURTHER})


class Jobs(msgspec.Struct, frozen=True):
    """So many Slurm jobs of one size; the sizes are sums over the pods of a job."""

    count: int
    pods: int
    cpus: int
    mem_mib: int
    gpus: int = 0


class Expected(msgspec.Struct, frozen=True):
    """An entry of `expected.yaml`, whose head says what the fields mean."""

    manifest: str
    jobs: list[Jobs] = []
    waves: list[str] = []
    preempt: str = ""
    comes_back: str = ""
    needs: str = ""


@functools.cache
def expected(folder: Path) -> tuple[Expected, ...]:
    """What the manifests of a folder become."""
    return msgspec.convert(yaml.safe_load((folder / "expected.yaml").read_text()), type=tuple[Expected, ...])


def documents(manifest: Path) -> list[dict[str, object]]:
    """The objects in a file."""
    return [document for document in yaml.safe_load_all(manifest.read_text()) if document]
