"""A cluster that one bench has for itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from demo.bring_up import build_images
from demo.report import Tell
from demo.stack import Stack
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


@contextlib.contextmanager
def own_stack(
    name: str, suite: str, tell: Tell, up: Callable[[Cluster, Sequence[Path]], None]
) -> Iterator[tuple[Stack, Cluster]]:
    """It has the images of a suite, and no charts yet. `up` starts it; new virtual machines have the archives."""
    images = build_images(suite, tell)
    archives = sorted({Path(image.archive) for image in images.values()})
    refs = {key: image.ref for key, image in images.items()}
    with own_cluster(name, tell) as cluster:
        up(cluster, archives)
        cluster.load(archives)
        yield Stack(suite=suite, kubeconfig=cluster.kubeconfig, bin_dir=cluster.bin, images=refs), cluster
