"""Explains a pod or gang to a person, by running the same decisions as the scheduler.

`Facts` go in, an `Explanation` comes out. `decide_gang` reports why a gang waits. Here are only the words around it,
and what a person can do about it.
"""
