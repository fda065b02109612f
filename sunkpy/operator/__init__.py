"""The operator: NodeSets to slurmd pods, and slurmd pods to Nodes. The only part that writes Nodes."""
