"""The metrics of a Slurm cluster, under the names of Slurm's own OpenMetrics (`slurmctld`, from 25.11 on).

slurmctld's statistics.c defines what it counts; its metrics_openmetrics.so defines the names. sunkpy computes all of
them from slurmrestd's answers, so that Slurm 24.11, which has no metrics of its own, has the same.
"""
