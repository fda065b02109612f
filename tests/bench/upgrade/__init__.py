"""The bench of upgrades: `measure` runs it; `sessions` are those that a person has open meanwhile."""
