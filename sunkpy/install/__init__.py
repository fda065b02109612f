"""Programs beside the daemons of a Slurm cluster: the Jobs of Kubernetes that run before the cluster is installed and
before it is removed, the renewal of a token, and the plan of an upgrade.
"""
