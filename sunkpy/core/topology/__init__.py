"""Computes where each node stands in the network, from labels of its Node.

`sources` lists who labels Nodes, with which keys. `places` makes a place of the labels of one Node; no other Node is
looked at, so a broken label harms its own node alone. `files` writes topology.conf and topology.yaml, and reads such
files that others wrote.
"""
