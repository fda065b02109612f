# source: ULHPC, hpc-docs.uni.lu/jobs/submit
# does: `sbatch <<EOF`, variables of the shell expanded before
# says: with 3 from the shell
VALUE=3
sbatch --wait --parsable --output=said > job <<EOF
#!/bin/bash
echo with $VALUE from the shell
EOF
cat said
