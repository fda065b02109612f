# source: CSC, docs.csc.fi/computing/running/example-job-scripts
# does: run several programs in one step with `srun --multi-prog`
# says: 0: server on 0
# says: 1: client 0 of 2
# says: 2: client 1 of 2
printf '%s\n' '0 echo server on %t' '1-2 echo client %o of 2' > programs.conf
srun --ntasks=3 --nodes=2 --time=1 --label --multi-prog programs.conf | sort
