"""A workload as Slurm sees it: one job per gang of pods.

families (whose gang is a pod, what does the gang look like) → request (the job) → Slurm → view → decide → actions;
`hooks` says what prologs and epilogs wait for, `lifecycle` has the states as a table.
"""
