"""Each GPU has one owner at a time: pods with claims and jobs of `sbatch`, on a node with simulated GPUs of a DRA
driver.
"""
