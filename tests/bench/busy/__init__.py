"""What fits behind a long queue: pods and sbatch, with the parameters of the chart and with those of Slurm alone."""
