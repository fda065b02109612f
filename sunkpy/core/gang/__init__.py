"""A gang is a workload as Slurm sees it: pods that one Slurm job stands for.

families/  find the gang of a pod, and the roles and seats of a gang
identity   the job's comment and the pod's annotations that name the gang
evidence   which proof that a pod belongs to a gang is stronger
limits     affinity, spreading and host ports of a gang's pods: they become a constraint of the job, or are refused
access     which users, partitions and accounts of Slurm a namespace may use
job/       the placeholder job, which holds nodes for the pods: its request, its phases, and why it ended
seating/   which pod of a gang is on which node of the job
devices/   which devices of the job each pod gets
snapshot   all that is known of a gang now, and the gang's state
decide/    the actions for a gang
hooks      for which pods a Prolog or an Epilog waits, also for pods of other jobs that are still on the node
phases     the phases of pods and the states of gangs
"""
