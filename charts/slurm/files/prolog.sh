# Prolog of every job. Nothing of the job runs before it has ended, so this is where the node is proved to be free of
# the pods of jobs that are over, whatever became of their Epilogs.
hook=prolog

# Before anything is asked: from here on pods may come.
if is_placeholder; then
  read_settings || fail "no $settings_file; is start-slurmd of this chart?"
  if [ -n "${SUNKPY_HOOKS_URL:-}" ]; then
    # A pod that an older chart made has no volume there: then it holds as long as the container.
    mkdir -p "$markers"
    : > "$marker" || fail "cannot write $marker, so no pod may come here"
  fi
fi

# Other jobs that are marked, as a list with commas. A node without has no pods, and asks nobody. A mark under the number
# of a job that brings no pods is an older job's: Slurm counts anew when it has lost its state.
others='' own=''
if is_placeholder; then own=$SLURM_JOB_ID; fi
for found in "$markers"/*; do
  job=${found##*/}
  [[ $own == "$job" || ! $job =~ ^[0-9]+$ ]] || others+=${others:+,}$job
done

# The scheduler names the jobs that are over and whose pods have left: their markers have done their work.
forget_those_over() {
  local job
  [[ $body =~ \"over\":\ *\[([0-9,\ ]*)\] ]] || return 0
  for job in ${BASH_REMATCH[1]//,/ }; do
    [ "$job" = "$SLURM_JOB_ID" ] || rm -f "$markers/$job"
  done
}

if [ -n "$others" ]; then
  hook=gate
  read_settings || fail "no $settings_file, and pods may be here: see $markers"
  [ -n "${SUNKPY_HOOKS_URL:-}" ] || fail "no scheduler to ask, and pods may be here: see $markers"
  ask_until_done gate "$SUNKPY_EPILOG_TIMEOUT_S" "$SUNKPY_OUTAGE_TIMEOUT_S" ", \"marked\": [$others]" ||
    fail "$why"
  forget_those_over
  hook=prolog
fi

# The scheduler binds the pods; wait for it. Late is no failure: it also binds when it sees the job run.
if is_placeholder && [ -n "${SUNKPY_HOOKS_URL:-}" ]; then
  ask_until_done prolog "$SUNKPY_PROLOG_TIMEOUT_S" "$SUNKPY_PROLOG_TIMEOUT_S"
fi
exit 0
