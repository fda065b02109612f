# In a UTS namespace of its own, for a pod on the machine's network has the machine's name: jobs get that of their Slurm node, as in
# any other pod, and /etc/hosts, which is the pod's, has it as the kubelet writes it there.
hostname "$SUNKPY_SLURM_NODE"
printf '%s\t%s.%s\t%s\n' "$SUNKPY_ADDRESS" "$SUNKPY_SLURM_NODE" "$SUNKPY_DOMAIN" "$SUNKPY_SLURM_NODE" >> /etc/hosts
exec "$@"
