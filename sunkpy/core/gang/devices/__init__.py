"""Devices that pods ask for, from the request to the container: docs/design/devices.md.

asked      what claims ask for, in the GRES that Slurm counts
made       the claim of a pod that asks by a resource
indices    which of the indices that Slurm gave to the job are whose
chosen     the device behind an index
handout    what the device plugin hands to a container
"""
