# source: Slurm, slurm.schedmd.com/squeue.html (job state codes)
# does: run a job that takes more memory than it asked for: `sacct` shows `OUT_OF_MEMORY`
# cannot: the test nodes have no cgroups; `make machines` shows it on nodes that have them
