"""A workload as Slurm sees it: one job per gang of pods.

families/  whose gang is a pod, and what does the gang look like
identity   the comment of a job and the note on a pod, by which they are of a gang
evidence   by what it is known whose a pod is, and what counts for more
limits     what its pods want of each other: a constraint, or refused by name
access     what its namespace may ask of Slurm
request    the placeholder job that it becomes
snapshot       all that is known of it now, and the state that can be read from that
decide     what to do about it: `actions`
hooks      what prologs, epilogs and the gate wait for
ends       why its job ended, and who the preemptor was
phases     of pods and of gangs, and what is asked of them
"""
