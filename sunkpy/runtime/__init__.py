"""What every process needs around its decisions: queue, leader election, metrics, settings, life cycle."""
