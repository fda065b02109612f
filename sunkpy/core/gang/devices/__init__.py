"""Devices that pods ask for, from the request to the container: docs/design/devices.md.

asked      what claims ask for, as GRES that Slurm counts
made       the claim that the scheduler makes for a pod that asks for the resource of a DeviceClass
indices    which of the job's device indices on a node each member gets
chosen     the device behind an index
handout    the GPUs that sunkpy's device plugin hands to a container
"""
