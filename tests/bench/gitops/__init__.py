"""Two Slurm clusters that Argo CD or Flux keeps as a Git repository says: those of docs/examples/gitops."""
