# Epilog: a job that stands for pods has ended. The node stays COMPLETING, and so nobody else's, until this returns:
# wait for the pods to be gone. Failing drains the node, which is right when a pod may still be there.
hook=epilog
ask_until_done "$SUNKPY_EPILOG_TIMEOUT_S" || exit 1
exit 0
