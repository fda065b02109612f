# Gives a slurmd pod on the machine's network the host name of its Slurm node, as other slurmd pods have it. Otherwise the pod
# would have the machine's name. This runs in a UTS namespace of its own, and writes the name into the pod's /etc/hosts as the
# kubelet does.
hostname "$SUNKPY_SLURM_NODE"
printf '%s\t%s.%s\t%s\n' "$SUNKPY_ADDRESS" "$SUNKPY_SLURM_NODE" "$SUNKPY_DOMAIN" "$SUNKPY_SLURM_NODE" >> /etc/hosts
exec "$@"
