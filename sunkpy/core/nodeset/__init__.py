"""NodeSets: which nodes get a slurmd pod, under which name, and how a pod safely goes again."""
