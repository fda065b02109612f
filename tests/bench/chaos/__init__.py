"""Chaos: the whole under faults of every kind, judged by an observer outside that believes neither side.

`schedule` makes the plan from the seed, `faults` and `load` carry it out, `observer` writes down what really runs on
each node and what both sides say, `judge` finds in that record what must not be, `story` tells the worst of it. `run`
puts them together. Decisions (`schedule`, `judge`, `story`) are pure and have unit tests.
"""
