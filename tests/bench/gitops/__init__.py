"""Two Slurm clusters that Argo CD keeps as a Git repository says: the one of docs/examples/gitops."""
