"""`sunkpy volumes`: in the pods of slurmctld and MariaDB, how full their volumes are, and how old what they have saved
is.

It reads and never writes, asks nobody, and has no right in Kubernetes.
"""
