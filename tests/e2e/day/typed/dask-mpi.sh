# source: Dask, mpi.dask.org
# does: run Dask with `mpirun python script.py` and `dask_mpi.initialize()`: scheduler, client and workers are ranks of one job
# needs: software
# limit: 180
# says: 285 by 2 workers, the client on another node
cat > run.py <<'END'
import socket
from dask_mpi import initialize
from distributed import Client

def square(n):
    return n * n

if __name__ == "__main__":
    initialize(nthreads=1, local_directory="/tmp", dashboard=False)
    with Client() as client:
        client.wait_for_workers(2)
        total = sum(client.gather(client.map(square, range(10))))
        hosts = client.run(socket.gethostname).values()
        print(total, "by", len(hosts), "workers, the client", "beside them" if socket.gethostname() in hosts else "on another node")
END
cat > dask.job <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --mem=1G --time=3
. ~/software/env
mpirun.openmpi -x LD_LIBRARY_PATH python3 run.py
END
sbatch --wait --output=said dask.job > /dev/null || { cat said; exit 1; }
grep workers, said || cat said
