# source: ULHPC, hpc-docs.uni.lu/jobs/submit
# does: submit a script from the shell with `sbatch <<EOF`; the shell expands variables before it submits
# says: with 3 from the shell
VALUE=3
sbatch --wait --parsable --output=said > job <<EOF
#!/bin/bash
echo with $VALUE from the shell
EOF
cat said
