"""Each GPU has one owner at a time: pods and jobs of `sbatch` on a node with simulated GPUs."""
