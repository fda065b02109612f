"""Runs pods as Slurm jobs.

1. `main` starts the process. When it leads, `term` makes the parts, with the connections and settings of one `leader`,
   and `takeover` finds what an earlier leader left.
2. Something changes: a pod, its owner or a node (watches, in `pods`, `owners`, `nodes`), a job (a poll, in `jobs`), or
   a prolog or epilog calls (`hooks`). The change is recorded in the `ledger`, and `pods.wake` enqueues its gang. Where
   the gang itself may look different, `pods.gangs` first recognises it again, and keeps it as one value in its record.
3. A worker takes the gang from the queue for one pass (`loop`). `collect` makes a snapshot of all that is known of it,
   and changes nothing.
4. `core.gang.decide` says from the snapshot what to do.
5. `execute` does it: jobs are submitted, changed and cancelled (`jobs`), pods are bound and evicted (`pods`), and
   Events and conditions say what happened (`outbox`).
6. Hooks that wait for the gang look at it again, and are answered when its pods are bound or gone.
"""
