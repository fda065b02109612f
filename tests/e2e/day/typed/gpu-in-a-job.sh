# source: NERSC, docs.nersc.gov/jobs/examples; a job sees the GPUs it asked for
# does: ask for a GPU on each of two nodes (`--gpus-per-node=1`), and read `CUDA_VISIBLE_DEVICES` in the job
# says: 0: .
# says: 1: .
srun --nodes=2 --ntasks-per-node=1 --gpus-per-node=1 --time=1 --label bash -c 'echo $CUDA_VISIBLE_DEVICES' | sort
