"""Runs one slurmd pod on each node of a NodeSet, and writes onto the Node what Slurm says of its Slurm node.

1. `main` starts the process. When it leads, `term` makes the parts for this term of leadership.
2. Something changes: a NodeSet (`feed`), a pod or a Node (watches). `loop` says which NodeSets and which Nodes that
   concerns, and puts their keys into queues. A resync does so for all of them now and then.
3. A worker takes a key for one pass (`loop`). `collect` makes one value of all that is known of the object: from the
   watches, from `pod_index`, and from `memory`, which keeps what a watch does not show yet.
4. `core.nodeset` decides from that value what to do.
5. `create` and `execute` write slurmd pods, `node_writer` writes Nodes, and `status_writer` reports on the NodeSet.
   `asking` asks autoscalers for more nodes.

The operator never asks Slurm: all that it knows of Slurm is what the syncer notes on slurmd pods. No other process of
sunkpy writes Nodes; a person does so by `sunkpy drain`, `undrain` and `verify`.
"""
