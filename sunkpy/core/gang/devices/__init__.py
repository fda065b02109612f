"""The devices that pods ask for, from the request to the container. The design is in docs/design/devices.md.

asked      what claims ask for, as GRES that Slurm counts, and why devices are refused
made       the claim that the scheduler makes for a pod that asks for the extended resource of a DeviceClass
indices    which of the job's device indices on a node each pod gets
chosen     the device that stands behind an index of Slurm
handout    the GPUs that sunkpy's device plugin hands to a container
"""
