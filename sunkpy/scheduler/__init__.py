"""The scheduler: runs pods of Kubernetes as jobs of Slurm. A gang is the pods that one Slurm job stands for.

1. `main` starts the process. When the process becomes the leader, `term` makes its parts, with the connections and
   settings of one `leader`, and `takeover` finds the pods and jobs that an earlier leader left.
2. Something changes: watches see a change of a pod, its owner or a node (`pods`, `owners`, `nodes`), a poll sees a
   change of a job (`jobs`), or a Prolog or Epilog calls (`hooks`). The change is recorded in the `ledger`, which has a
   record of each gang, and `pods.wake` puts the gang that the change concerns into a queue. If the gang itself may look
   different, `pods.gangs` first makes the gang's value again from its pods, and stores the value in the gang's record.
3. A worker takes the gang from the queue for one pass (`loop`). `collect` makes a snapshot of what is known of the
   gang, without changing anything.
4. `core.gang.decide` decides from the snapshot what to do.
5. `execute` does it: jobs are submitted, changed and cancelled (`jobs`), pods are bound and evicted (`pods`), and
   Events and conditions tell people what happened (`outbox`).
6. Prologs and Epilogs that wait for the gang look at the gang again. They are answered when its pods are bound or gone.
"""
