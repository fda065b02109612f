"""Computes where each node stands in the network, from labels of its Node.

`sources` lists who labels Nodes, with which keys. `places` computes the place of a node from the labels of its Node; no
other Node is looked at, so a wrong label harms only this node. `files` writes topology.conf and topology.yaml, and
reads such files that others wrote. `pace` decides when a new file is written, and `restart` which nodes the file of
Slurm 26.05 has to name.
"""
