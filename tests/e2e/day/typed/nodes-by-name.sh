# source: Slurm, slurm.schedmd.com/sbatch.html
# does: choose nodes by name with `--nodelist` and `--exclude`, and fold names with `scontrol show hostlist`
# says: on the second: yes
# says: without the second: 2
# says: compute-\d+-\[\d+-\d+\]
nodes=($(sinfo --noheader --Node --partition=low --format=%N))
[ $(srun --time=1 --nodelist=${nodes[1]} hostname) = ${nodes[1]} ] && echo on the second: yes
echo without the second: $(srun --time=1 --nodes=2 --exclude=${nodes[1]} hostname | grep -vc ${nodes[1]})
scontrol show hostlist $(IFS=,; echo "${nodes[*]}")
