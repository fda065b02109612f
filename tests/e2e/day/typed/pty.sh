# source: NERSC, docs.nersc.gov/jobs/interactive
# does: open a shell in a job with `srun --pty bash`, type a command there, and leave with `exit`
# says: (?s:.*)there compute-\d+-\d+ with /dev/pts/\d+(?s:.*)
type() {
  until grep -q '@compute.*\$' seen; do sleep 0.5; done
  echo 'echo there $(hostname) with $(tty); exit'
}
touch seen
type | script -qefc 'srun --time=2 --pty bash -i' seen
