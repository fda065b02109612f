"""Handles the pods that name this scheduler: finds the gang of each, knows the other pods on their nodes, and writes to
them.
"""
