"""`sunkpy volumes` runs in the pods of slurmctld and MariaDB. Its metrics say how full their volumes are, and how old
the saved data in them is.

It reads and never writes, asks nobody, and has no right in Kubernetes.
"""
