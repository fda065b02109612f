# source: CSC, docs.csc.fi/computing/running/creating-job-scripts (`--gres=gpu:TYPE:N`); NERSC, docs.nersc.gov/jobs/examples (`--gpus`, `--gpus-per-task`)
# does: ask for GPUs with `--gres=gpu:h100:2`, `--gpus=1`, or `--gpus-per-task=1` for two tasks
# says: 0,1
# says: .
# says: 2 tasks, 2 GPUs
srun --time=1 --gres=gpu:h100:2 bash -c 'echo $CUDA_VISIBLE_DEVICES'
srun --time=1 --gpus=1 bash -c 'echo $CUDA_VISIBLE_DEVICES'
sbatch --wait --time=1 --nodes=1 --ntasks=2 --gpus-per-task=1 --output=said --wrap='srun bash -c "echo \$CUDA_VISIBLE_DEVICES"; echo in all $SLURM_JOB_GPUS' > /dev/null
echo $(grep -vc all said) tasks, $(grep all said | grep -o '[0-9]' | wc -l) GPUs
