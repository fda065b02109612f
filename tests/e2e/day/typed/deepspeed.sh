# source: DeepSpeed, deepspeed.ai/getting-started; github.com/deepspeedai/DeepSpeed, deepspeed/launcher
# does: `deepspeed --hostfile … --launcher slurm`
# cannot: on cpus DeepSpeed compiles C++ first, and the images have no C++ compiler; its `srun` starts, with `--no_ssh_check`
