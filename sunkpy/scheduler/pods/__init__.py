"""Handles the pods that name this scheduler: finds the gang of each pod, knows which other pods are on the pods' nodes,
and binds, evicts and annotates the pods.
"""
