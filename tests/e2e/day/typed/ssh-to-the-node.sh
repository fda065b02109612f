# source: NERSC, docs.nersc.gov/jobs/monitoring
# does: `ssh NODE` while a job of one's own runs there
# cannot: off unless `compute.ssh.enabled`; `tests/integration/slurm/test_compute_ssh.py` shows it
