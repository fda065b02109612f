# source: Slurm, slurm.schedmd.com/srun.html
# does: `ssh -X` and `srun --x11`
# cannot: off unless `login.ssh.x11`; `srun --x11` needs cgroups, which these nodes lack
