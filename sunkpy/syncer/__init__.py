"""Mirrors slurmd pods and Slurm nodes, both ways: what one of them says is written onto the other.

1. `main` starts the process. When it leads, `term` makes the parts for this term of leadership.
2. A slurmd pod changes (a watch), or a Slurm node does in an answer of slurmrestd (a poll, `slurm.NodeCache`). Pod and
   node have the same name, which goes into a queue.
3. A worker takes the name for one pass (`loop`). `collect` makes one view of it: the pod, the node, and how old and how
   credible Slurm's answer is.
4. `core.mirror` decides from the view what to do. An action that cannot be undone waits for a second answer.
5. `execute` does it. On the pod it writes conditions and receipts (notes that the node is drained and idle); in Slurm
   it drains and deletes nodes (`slurm_writer`). Before each write to Slurm it reads the node once more.

In addition to the loop, `service_check` asks which jobs run on a node that a roll waits for. `queue_watch` reports that
jobs wait for the nodes of a NodeSet, `growth` how many nodes jobs lack, and `outage` that Slurm does not answer.
`idle_checks` starts checks of idle machines. `potential` writes the nodes that a NodeSet may grow to, for slurmctld.
"""
