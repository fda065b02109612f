# Prolog: a job that stands for pods has been given this node. The scheduler binds the pods; wait for it.
# A Prolog that fails drains the node. So it never fails: the scheduler also binds when it sees the job run.
hook=prolog
ask_until_done "$SUNKPY_PROLOG_TIMEOUT_S"
exit 0
