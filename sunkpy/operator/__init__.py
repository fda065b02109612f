"""Runs one slurmd pod on each node of a NodeSet, and writes onto the Node what Slurm says of it.

1. `main` starts the process. When it leads, `term` makes the parts for this term of leadership.
2. Something changes: a NodeSet, a pod or a Node (watches, in `feed`). `loop` says which NodeSets and which Nodes that
   concerns, and puts their keys into two queues. A resync does so for all of them now and then.
3. A worker takes a key for one pass (`loop`). `collect` makes one value of all that is known of it: from the watches,
   from `pod_index`, and from `memory`, which keeps what a watch does not show yet.
4. `core.nodeset` says from that value what to do.
5. `create` and `execute` write slurmd pods, `node_writer` writes Nodes, and `status_writer` reports on the NodeSet.

It never asks Slurm: all that it knows of Slurm is what the syncer notes on slurmd pods. No other part writes Nodes.
"""
