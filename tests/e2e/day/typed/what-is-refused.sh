# source: Slurm, slurm.schedmd.com/sbatch.html
# does: submit a job with a wrong account, partition, time or number of GPUs: Slurm refuses it at once, and says why
# says: .*Invalid account or account/partition combination specified
# says: .*invalid partition specified: .*
# says: .*Batch job submission failed: Invalid partition name specified
# says: .*Invalid --time specification
# says: .*Requested node configuration is not available
sbatch --account=physics --wrap=hostname || true
sbatch --partition=gpu --wrap=hostname || true
sbatch --time=tomorrow --wrap=hostname || true
sbatch --nodes=1 --gpus-per-node=3 --wrap=hostname || true
