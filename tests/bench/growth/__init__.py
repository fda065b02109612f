"""0 → 20 → 0 nodes with the real Cluster Autoscaler, for jobs of people and for pods."""
