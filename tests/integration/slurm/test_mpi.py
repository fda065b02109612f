"""MPI over several nodes: Debian's Open MPI and MPICH, started by srun, and by their own mpirun and mpiexec.

The program is in Python because a compiler would be most of the image. All nodes have one address here, of which Open
MPI has to be told (`lo`); on a cluster it finds the addresses of the pods itself. It speaks through UCX: over `ob1` a
rank that has begun may send to one that has not, which ends by SIGSEGV in MPI_Init (open-mpi/ompi#12495), once in a
hundred starts on a busy machine.
"""

from __future__ import annotations

import re
import subprocess
from typing import Final

import pytest

from tests.integration.slurm.site import Site
from tests.roots import DEBIAN, SUITE
from tests.unit.slurm_images.test_build import build as images

WHY_NOT = "Debian's Slurm 26.05 has no plugin for PMIx, and its Open MPI 6 wants nodes with an address of their own"
pytestmark = pytest.mark.integration
of_open_mpi = pytest.mark.skipif(SUITE == "sid", reason=WHY_NOT)

CERTIFICATES: Final = "/etc/ssl/certs"
DOCKERFILE: Final = """\
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends mpich openmpi-bin python3
"""
OPEN_MPI: Final = """\
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
world, integer, total = (
    ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_" + name)) for name in ("comm_world", "int", "op_sum")
)
"""
MPICH: Final = """\
mpi = ctypes.CDLL("libmpich.so.12", mode=ctypes.RTLD_GLOBAL)
world, integer, total = 0x44000000, 0x4C000405, 0x58000003  # its mpi.h: MPI_COMM_WORLD, MPI_INT, MPI_SUM
"""
PROGRAM: Final = """\
import ctypes, os
{of_library}
rank, size, result = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mine = ctypes.c_int(rank.value + 1)
mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(result), 1, integer, total, world)
print("rank", rank.value, "of", size.value, "on", os.uname().nodename + ":", result.value, flush=True)
mpi.MPI_Finalize()
"""
_THROUGH_UCX: Final = "OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any"
PLACE: Final = f"export {_THROUGH_UCX} UCX_TLS=self,tcp UCX_NET_DEVICES=lo; cd"


def _output(*argv: str, said: str | None = None) -> str:
    return subprocess.run(argv, input=said, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def mpi(site: Site) -> Site:
    """A site with both on its nodes, as in an image of its own, and a program of ann's for each."""
    base, image = images.Base(DEBIAN), f"localhost/sunkpy-test-mpi:{DEBIAN}"
    images._ensure_base(base)  # Debian as in the images: a public one may be out of reach
    build = ("buildah", "build", "--layers", "--isolation", "chroot", "--network", "host", "--pull=never")
    dockerfile = f"FROM {base.ref}\n{DOCKERFILE}"
    _output(*build, "--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro", "--tag", image, "-", said=dockerfile)
    container = _output("buildah", "from", "--pull-never", image)
    try:
        root = _output("buildah", "mount", container)
        for folder in ("usr", "etc"):
            _output("cp", "-a", "--no-clobber", f"{root}/{folder}", str(site.slurm.root))
    finally:
        _output("buildah", "rm", container)
    for name, of_library in (("mpi", OPEN_MPI), ("mpich", MPICH)):
        (site.slurm.root / f"home/ann/{name}.py").write_text(PROGRAM.format(of_library=of_library))
    return site


def _assert_four_ranks_on_two_nodes(said: str) -> None:
    """Whichever node comes first: dynamic ones stand in the order in which they registered."""
    ranks = sorted(re.findall(r"rank (\d) of 4 on (c[12]): 10", said))
    assert [rank for rank, _ in ranks] == list("0123"), said
    assert sorted(node for _, node in ranks) == ["c1", "c1", "c2", "c2"], said


@of_open_mpi
def test_srun_starts_ranks_on_several_nodes_by_pmix(mpi: Site):
    _, said = mpi.shell("ann", f"{PLACE}; srun -w c1,c2 --ntasks-per-node=2 --mpi=pmix python3 mpi.py")
    _assert_four_ranks_on_two_nodes(said)


@of_open_mpi
def test_mpirun_finds_the_nodes_of_an_allocation(mpi: Site):
    _, said = mpi.shell("ann", f"{PLACE}; salloc -w c1,c2 --ntasks-per-node=2 mpirun python3 mpi.py")
    _assert_four_ranks_on_two_nodes(said)


@of_open_mpi
def test_mpirun_finds_the_nodes_of_a_batch_job(mpi: Site):
    script = "--wait --output=o -w c1,c2 --ntasks-per-node=2 --wrap 'mpirun python3 mpi.py'"
    _, said = mpi.shell("ann", f"{PLACE}; sbatch {script}; cat o")
    _assert_four_ranks_on_two_nodes(said)


def test_srun_starts_ranks_of_mpich_on_several_nodes(mpi: Site):
    _, said = mpi.shell("ann", "cd; srun -w c1,c2 --ntasks-per-node=2 --mpi=pmi2 python3 mpich.py")
    _assert_four_ranks_on_two_nodes(said)


def test_mpiexec_of_mpich_finds_the_nodes_of_an_allocation(mpi: Site):
    _, said = mpi.shell("ann", "cd; salloc -w c1,c2 --ntasks-per-node=2 mpiexec.hydra python3 mpich.py")
    _assert_four_ranks_on_two_nodes(said)
