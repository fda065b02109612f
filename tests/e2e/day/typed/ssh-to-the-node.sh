# source: NERSC, docs.nersc.gov/jobs/monitoring
# does: log in to a node with `ssh NODE` while a job of one's own runs there
# cannot: ssh to nodes is off unless `compute.ssh.enabled`; `tests/integration/slurm/test_compute_ssh.py` shows it
