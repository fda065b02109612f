# source: ULHPC, hpc-docs.uni.lu/jobs/dependencies
# does: submit jobs with `--dependency=afterok`, `afternotok` and `singleton`; Slurm ends a job that can never begin (`--kill-on-invalid-dep`)
# says: first
# says: second
# says: a
# says: b
# says: rescue
# says: CANCELLED
first=$(sbatch --parsable --time=1 --output=/dev/null --wrap='echo first >> order')
second=$(sbatch --parsable --time=1 --output=/dev/null --dependency=afterok:$first --wrap='echo second >> order')
sbatch --parsable --output=/dev/null --dependency=afterok:$second --job-name=one --wrap='sleep 1; echo a >> order' > a
sbatch --parsable --wait --output=/dev/null --dependency=afterok:$second,singleton --job-name=one --wrap='echo b >> order' > b
bad=$(sbatch --parsable --output=/dev/null --wrap='exit 3')
never=$(sbatch --parsable --output=/dev/null --dependency=afterok:$bad --kill-on-invalid-dep=yes --wrap='echo never >> order')
sbatch --wait --output=/dev/null --dependency=afternotok:$bad --wrap='echo rescue >> order' > c
cat order
until scontrol show job $never | grep -o CANCELLED; do sleep 0.5; done
