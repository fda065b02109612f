"""Programs beside the daemons of a Slurm cluster: jobs before it is installed and before it is removed, the renewal of
a token, and the plan of an upgrade.
"""
