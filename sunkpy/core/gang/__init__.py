"""A gang is the pods for which one Slurm job holds the nodes: a whole workload, a part of it, or a single pod.

gang       the gang itself, with its roles, seats (room in the job for one pod each) and members
owners     the objects above a pod: which ones to read, and when all of them are known
families/  find the gang of a pod, and the roles and seats of a gang
identity   the job's comment and the pod's annotations that name the gang
evidence   which proof that a pod belongs to a gang is stronger
limits     affinity, spreading and host ports of a gang's pods: they become a constraint of the job, or are refused
access     which users, partitions and accounts of Slurm a namespace may use
job/       the placeholder job, which holds nodes for the pods: its request, its phases, and why it ended
seating/   which pod of a gang is on which node of the job
devices/   which devices of the job each pod gets
snapshot   all that is known of a gang now, and the gang's state
decide/    decide what the scheduler does for a gang now
actions    what the scheduler can do for a gang: submit a job, bind pods, evict them …
suspending how the owner of a gang's pods is suspended and resumed
hooks      for which pods a Prolog or an Epilog waits, also for pods of other jobs that are still on the node
phases     the phases of pods and the states of gangs
"""
