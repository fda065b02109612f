# source: Dask, jobqueue.dask.org
# does: start Dask's `SLURMCluster`: the client runs in the login pod, its workers in two jobs that it submits
# needs: software
# limit: 180
# says: \[0, 1, 4, 9, 16, 25, 36, 49\] in 2 jobs
cat > run.py <<'END'
import os, time
from dask_jobqueue import SLURMCluster
from distributed import Client

def work(n):
    time.sleep(0.5)
    return n * n, os.environ["SLURM_JOB_ID"]

if __name__ == "__main__":
    with SLURMCluster(queue="low", cores=1, memory="512MB", walltime="00:05:00") as cluster, Client(cluster) as client:
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)
        done = client.gather(client.map(work, range(8)))
        print([square for square, _ in done], "in", len({job for _, job in done}), "jobs")
END
. ~/software/env
python3 run.py 2> log || { cat log; exit 1; }
