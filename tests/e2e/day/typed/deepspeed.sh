# source: DeepSpeed, deepspeed.ai/getting-started; github.com/deepspeedai/DeepSpeed, deepspeed/launcher
# does: `deepspeed --hostfile … --launcher slurm`
# cannot: on cpus it first compiles an extension, which was not tried; its `srun` starts, with `--no_ssh_check`
