"""Mirrors slurmd pods and Slurm nodes, both ways.

1. `main` starts the process. When it leads, `term` makes the parts for this term of leadership.
2. A slurmd pod changes (a watch), or a Slurm node does in an answer of slurmrestd (a poll, `slurm.NodeCache`). Both
   have the same name, and it goes into a queue.
3. A worker takes the name for one pass (`loop`). `collect` makes one view of it: the pod, the node, and how old and how
   credible Slurm's answer is.
4. `core.mirror` says from the view what to do. What cannot be undone waits for a second answer.
5. `execute` does it: conditions and receipts on the pod, drains and deletions in Slurm (`slurm_writer`). Before it
   writes to Slurm it reads the node once more.

In addition to the loop, `service_check` asks which jobs run on a node when a roll wants to know. `queue_watch` reports
who waits for a NodeSet, `growth` which nodes jobs lack of it, and `outage` that Slurm does not answer. `idle_checks`
has machines checked on which nothing runs. `potential` tells the pod of slurmctld of nodes that there could be.
"""
