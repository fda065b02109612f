"""Growth: how many more nodes the waiting jobs need, so that autoscalers can be asked for each of them once.

waiting     what a job in the queue asks of nodes, and whether new nodes would help it
pools       the NodeSets as growth sees them: the room on their nodes, and how many new nodes they may get
lacks       places the jobs in Slurm's order; the nodes that a job then still needs are lacking
wish        the number that a NodeSet's status publishes: it changes when two answers agree, or when nodes join
"""
