# source: DeepSpeed, deepspeed.ai/getting-started; github.com/deepspeedai/DeepSpeed, deepspeed/launcher
# does: start a training with `deepspeed --hostfile … --launcher slurm`
# cannot: without GPUs deepspeed compiles an extension, and the tests' software (Debian's PyTorch) lacks the headers for it; with libtorch-dev, pybind11-dev and python3-dev two ranks trained over gloo, without a cluster; the launcher's `srun` starts, with `--no_ssh_check`
