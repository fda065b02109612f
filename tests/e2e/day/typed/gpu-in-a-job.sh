# source: NERSC, docs.nersc.gov/jobs/examples; a job sees the GPUs it asked for
# does: `--gpus-per-node=1`, `CUDA_VISIBLE_DEVICES`, `scontrol show node` with Gres
# says: 0: .
# says: 1: .
srun --nodes=2 --ntasks-per-node=1 --gpus-per-node=1 --time=1 --label bash -c 'echo $CUDA_VISIBLE_DEVICES' | sort
