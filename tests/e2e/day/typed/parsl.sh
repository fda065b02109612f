# source: Parsl, parsl.readthedocs.io/en/stable/userguide/configuration (`SlurmProvider`, `HighThroughputExecutor`, `SrunLauncher`)
# does: run Parsl apps of Python and bash: the program is in the login pod, its workers in a job of two nodes
# needs: software
# limit: 180
# says: \[0, 1, 4, 9, 16, 25, 36, 49\] on 2 nodes
cat > run.py <<'END'
import parsl
from parsl.addresses import address_by_hostname
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider

@parsl.python_app
def square(n):
    import socket, time
    time.sleep(0.5)
    return n * n, socket.gethostname()

provider = SlurmProvider(
    partition="low", nodes_per_block=2, init_blocks=1, max_blocks=1, mem_per_node=1, walltime="00:05:00",
    worker_init=". ~/software/env", launcher=SrunLauncher(), exclusive=False,
)
executor = HighThroughputExecutor(
    label="nodes", address=address_by_hostname(), max_workers_per_node=1, prefetch_capacity=0, encrypted=False,
    provider=provider,
)
with parsl.load(Config(executors=[executor], usage_tracking=0)):
    done = [app.result() for app in [square(n) for n in range(8)]]
print([result for result, _ in done], "on", len({host for _, host in done}), "nodes")
END
. ~/software/env
python3 run.py 2> log || { cat log; exit 1; }
