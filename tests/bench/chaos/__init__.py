"""Chaos: a cluster under faults of every kind, judged by an independent observer that trusts neither Kubernetes nor
Slurm.

`schedule` makes a plan from a seed, `faults` and `load` carry it out, `observer` records which processes really run on
each node and what both sides report, `judge` finds in that record what must not happen, and `story` explains the worst
of it. `run` puts them together. `schedule`, `judge` and `story` are pure and have unit tests.
"""
