"""The bench of upgrades: `measure` runs it, `sessions` are those of a person meanwhile."""
