# source: IPython Parallel, ipyparallel.readthedocs.io/en/latest/tutorial/process.html
# does: start IPython engines in a job with `Cluster(engines="slurm")`, and call `map` over them from the login pod
# needs: software
# limit: 180
# says: \[0, 1, 4, 9, 16, 25, 36, 49\] by 2 engines
cat > run.py <<'END'
import ipyparallel as ipp
from traitlets.config import Config

config = Config()
config.SlurmEngineSetLauncher.timelimit = "5"
config.SlurmEngineSetLauncher.queue = "low"
config.SlurmEngineSetLauncher.options = "--mem-per-cpu=300"
with ipp.Cluster(engines="slurm", n=2, controller_ip="*", config=config, log_level=30) as clients:
    print(list(clients[:].map_sync(lambda n: n * n, range(8))), "by", len(clients), "engines")
END
. ~/software/env
python3 run.py 2> log || { cat log; exit 1; }
