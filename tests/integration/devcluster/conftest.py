import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import Cluster
from devcluster.binaries import find_go
from devcluster.images import OneFile, write_archive
from devcluster.kubectl import Kubectl
from tests.integration.devcluster.pods import PROBE, ROOT, kubectl_of

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def _as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a node is a network namespace and a cgroup")


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of an image with one static program in it."""
    folder = tmp_path_factory.mktemp("probe")
    go = find_go(Cluster().binaries.cache, progress=print)
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    subprocess.run([str(go), "build", "-o", str(folder / "probe"), "."], cwd=HERE / "probe", env=env, check=True)
    archive = folder / "probe.tar"
    write_archive(archive, OneFile(tag=PROBE, path="/probe"), folder / "probe")
    return archive


@pytest.fixture(scope="module")
def cluster(probe: Path) -> Iterator[Cluster]:
    """Two nodes with pretended GPUs of both kinds, cpus, and labels, the probe image loaded; gone with the module."""
    made = Cluster("it", root=ROOT, progress=print)
    made.down()
    try:
        made.up(2, gpus=2, dra_gpus=2, cpus=7, labels={"node-2": {"zone": "b"}})
        made.load([probe])
        yield made
    finally:
        made.down()


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    return kubectl_of(cluster)
