# source: Slurm, slurm.schedmd.com/srun.html
# does: run `srun --kill-on-bad-exit`: when one rank fails, the others end, and srun and `sacct` show the failure
# says: .*task 0: Exited with exit code 7
# says: the other ended before it had slept
# says: FAILED\|\d+:0
cat > fails.job <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=2 --output=said
srun --kill-on-bad-exit bash -c 'sleep 1; [ $SLURM_PROCID = 0 ] && exit 7; sleep 100; touch slept'
END
job=$(sbatch --parsable --wait fails.job) || true
grep 'exit code' said
[ -e slept ] || echo the other ended before it had slept
until sacct -X -n -P -j $job -o State,ExitCode | grep FAILED; do sleep 0.5; done
