# source: NERSC, docs.nersc.gov/jobs/interactive
# does: allocate two nodes with `salloc`, run `srun` over both in its shell, and leave with `exit`
# says: (?s:.*)at \S+(?s:.*)0: compute-\d+-\d+(?s:.*)1: compute-\d+-\d+(?s:.*)Relinquishing job allocation \d+(?s:.*)
type() {
  until grep -q 'are ready for job' seen; do sleep 0.5; done
  printf '%s\n' 'echo at $(hostname)' 'srun -l hostname | sort'
  until grep -q '^1: ' seen; do sleep 0.5; done
  echo exit
}
touch seen
type | script -qefc 'salloc --nodes=2 --time=2' seen
