# source: joblib, joblib.readthedocs.io/en/stable/parallel.html; Python, docs.python.org/3/library/multiprocessing.html
# does: use as many processes in joblib and multiprocessing as `SLURM_CPUS_PER_TASK` says
# needs: software
# limit: 120
# says: joblib 2 processes
# says: multiprocessing 2 processes
cat > run.py <<'END'
import multiprocessing, os, time
from joblib import Parallel, delayed

def who(_):
    time.sleep(0.3)
    return os.getpid()

if __name__ == "__main__":
    cpus = int(os.environ["SLURM_CPUS_PER_TASK"])
    print("joblib", len(set(Parallel(n_jobs=cpus)(delayed(who)(n) for n in range(8)))), "processes")
    with multiprocessing.Pool(cpus) as pool:
        print("multiprocessing", len(set(pool.map(who, range(8), chunksize=1))), "processes")
END
. ~/software/env
srun --cpus-per-task=2 --mem=1G --time=2 python3 run.py
