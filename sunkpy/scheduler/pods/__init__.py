"""The pods that name this scheduler: which gang each belongs to, which other pods are on their nodes, and writes to
them.
"""
