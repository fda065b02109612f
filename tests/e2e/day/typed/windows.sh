# source: Slurm, slurm.schedmd.com/srun.html
# does: open windows of a program with `ssh -X` and `srun --x11`
# cannot: X11 is off unless `login.ssh.x11`; `srun --x11` needs cgroups, which the test nodes lack
