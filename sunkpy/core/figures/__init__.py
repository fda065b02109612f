"""The metrics of a Slurm cluster. Most have the names of Slurm's own OpenMetrics (`slurmctld`, from 25.11 on).

What each of these counts is defined by slurmctld's statistics.c; its name by metrics_openmetrics.so. sunkpy computes
all metrics from slurmrestd's answers, so that Slurm 24.11, which has no metrics of its own, has the same.
"""
