"""Is each job run once and recorded once while slurmctld is killed, and slurmdbd and MariaDB are killed and cut off?

Real daemons, no Kubernetes: people submit short jobs that write into logs of their own when they begin and end, and
what sacct says in the end is held against these logs.
"""
