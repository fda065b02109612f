"""A cluster that one bench has for itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from demo.report import Tell
from devcluster import Cluster


@contextlib.contextmanager
def own_cluster(name: str, tell: Tell) -> Iterator[Cluster]:
    """It is taken down at the end, unless a person wants to look at it."""
    cluster = Cluster(name, progress=tell)
    try:
        yield cluster
    finally:
        if "SUNKPY_KEEP" not in os.environ:
            cluster.down()
