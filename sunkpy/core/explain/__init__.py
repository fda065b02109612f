"""Explains a pod, gang, NodeSet or node to a person, with the same functions by which the scheduler and operator
decide.

For a gang, `Facts` go in and an `Explanation` comes out. `decide_gang` says why the gang waits; this package adds the
texts for people, and what a person can do about it.
"""
