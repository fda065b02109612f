# source: Slurm, slurm.schedmd.com/squeue.html (job state codes)
# does: a job that takes more memory than it asked for: `OUT_OF_MEMORY` in `sacct`
# cannot: these nodes have no cgroups; `make machines` shows it on ones that have
