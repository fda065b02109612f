# source: GRNET ARIS, doc.aris.grnet.gr/run
# does: look at nodes and partitions: `sinfo -s`, `sinfo -N -l`, `sinfo -o`, `scontrol show partition`, `scontrol show node`
# says: low\* up infinite
# says: 3 nodes idle
# says: high 3 2
# says: low\* 3 2
# says: PartitionName=low
# says: State=IDLE.*
sinfo -s --noheader | awk '/low/ { print $1, $2, $3 }'
echo "$(sinfo -N -l --partition=low | grep -c ' idle ') nodes idle"
sinfo --noheader -o '%P %D %c' | sort
scontrol show partition low | grep -o 'PartitionName=low'
scontrol show node $(sinfo --noheader -h -N -o %N | head -n 1) | grep -o 'State=[^ ]*'
