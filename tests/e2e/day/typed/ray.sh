# source: Ray, docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html
# does: start Ray in a job: `ray start --head` on the first node, workers on the others by `srun … &`; then run a program that uses all
# needs: software
# limit: 300
# says: tasks on 2 nodes, 4 cpus in all
cat > run.py <<'END'
import collections, socket, time
import ray

ray.init(address="auto", log_to_driver=False)
while ray.cluster_resources().get("CPU", 0) < 4:
    time.sleep(0.5)

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def where():
    time.sleep(1)
    return socket.gethostname()

hosts = collections.Counter(ray.get([where.remote() for _ in range(8)]))
print(f"tasks on {len(hosts)} nodes, {ray.cluster_resources()['CPU']:.0f} cpus in all")
END
cat > ray.job <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=5
. ~/software/env
export RAY_USAGE_STATS_ENABLED=0
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)
size="--num-cpus $SLURM_CPUS_PER_TASK --num-gpus 0 --object-store-memory 100000000 --temp-dir /tmp/ray.$SLURM_JOB_ID"
srun --nodes=1 --ntasks=1 -w "${nodes[0]}" ray start --head --node-ip-address=$head --port=6379 --include-dashboard=false $size --block &
until ray health-check --address $head:6379 2> /dev/null; do sleep 1; done
srun --nodes=1 --ntasks=1 -w "${nodes[1]}" ray start --address $head:6379 --num-cpus $SLURM_CPUS_PER_TASK --num-gpus 0 --object-store-memory 100000000 --block &
python3 -u run.py
END
sbatch --wait --output=said ray.job > /dev/null || { cat said; exit 1; }
grep 'tasks on' said || cat said
