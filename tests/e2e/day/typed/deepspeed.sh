# source: DeepSpeed, deepspeed.ai/getting-started; github.com/deepspeedai/DeepSpeed, deepspeed/launcher
# does: start a training with `deepspeed --hostfile … --launcher slurm`
# cannot: without GPUs deepspeed first compiles an extension, which was not tried; its `srun` starts, with `--no_ssh_check`
