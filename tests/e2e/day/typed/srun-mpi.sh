# source: Open MPI, docs.open-mpi.org/en/main/launching-apps/slurm.html; mpi4py, mpi4py.readthedocs.io
# does: run mpi4py with `srun --mpi=pmix python3`
# needs: software
# newer: Debian's 26.05 has no PMIx plugin, see docs/tasks/mpi.md
# limit: 120
# says: 4 ranks on 2 nodes
cat > ranks.py <<'END'
from mpi4py import MPI

hosts = MPI.COMM_WORLD.gather(MPI.Get_processor_name())
if MPI.COMM_WORLD.rank == 0:
    print(f"{len(hosts)} ranks on {len(set(hosts))} nodes")
END
. ~/software/env
srun --mpi=pmix --nodes=2 --ntasks-per-node=2 --mem=500 --time=2 python3 ranks.py
