"""A workload as Slurm sees it: one job per gang of pods.

recognise → options → request → (Slurm) → decide, with the life cycle as a table in `lifecycle`.
"""
