"""Devices that pods ask for by ResourceClaims: how many Slurm is asked for, and which they are once it has chosen."""
