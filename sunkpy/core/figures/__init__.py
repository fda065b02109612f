"""The figures of a Slurm cluster under the names of Slurm's own OpenMetrics (`slurmctld`, from 25.11 on).

What slurmctld counts is described in its statistics.c, the names in its metrics_openmetrics.so. All of it is computed
from what slurmrestd answers, so that 24.11, which has no metrics of its own, has the same.
"""
