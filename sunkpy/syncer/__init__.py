"""The syncer: mirrors slurmd pods and Slurm nodes both ways. The shell around `sunkpy.core.mirror`."""
