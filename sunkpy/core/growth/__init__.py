"""Growth: which nodes jobs that wait lack, so that autoscalers can be asked for them once.

waiting     what a job in the queue asks of nodes, and whether nodes would help it
pools       the NodeSets as growth sees them: rooms on nodes, and how many nodes more there may be
lacks       jobs in the order of Slurm, put into rooms one after the other: what is left over is lacking
wish        what of that is published: steady while answers differ, less at once as nodes come
"""
