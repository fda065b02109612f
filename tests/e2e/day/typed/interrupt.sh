# source: Slurm, slurm.schedmd.com/srun.html (SIGINT)
# does: press Ctrl-C in a terminal: the second one ends `srun` and its job
# says: (?s:.*)running(?s:.*)srun: interrupt(?s:.*)
# says: 0 left
type() {
  until grep -q '^running' seen; do sleep 0.2; done
  printf '\003'; sleep 0.3; printf '\003'; sleep 0.3; printf '\003'
  until grep -q 'task 0' seen; do sleep 0.2; done
}
touch seen
type | script -qefc "srun --time=2 bash -c 'echo running; sleep 100'" seen || true
until [ -z "$(squeue --noheader --me --states=RUNNING,COMPLETING)" ]; do sleep 0.5; done
echo $(squeue --noheader --me | wc -l) left
