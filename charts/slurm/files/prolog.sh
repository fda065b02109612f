# Prolog of every job. Nothing of the job runs before it has ended, so this is where the node is proved to be free of
# the pods of jobs that are over, whatever became of their Epilogs.
hook=prolog

run_site prolog "$first" || fail "$why"

# start-slurmd has made it. In a pod that an older one started Slurm would, as the user's, and by its paths as root: so no
# container starts there.
mkdir -p "$containers"

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

# Slurm ends a Prolog at `scontrol reconfigure`, and forgets it: the job would hold its node and never begin. So one that
# is cut short while it waits is requeued, by a process that Slurm does not know; an allocation, which Slurm cannot
# requeue, is cancelled. Nothing of the job has run. One that outlives the reconfigure ends later, and nobody waits for it:
# it stays as a zombie. Of a placeholder pods may be there once the gate is open, and its job does as it is.
requeue_if_cut_short() {
  waiting=$(mktemp) || return 0
  trap 'rm -f "$waiting"' EXIT
  # shellcheck disable=SC2016 # its own parameters
  setsid bash -c '
    echo $$ > "$2"
    left=5
    while [ -e "$2" ] || [ -z "$4" ]; do
      { read -r stat < "/proc/$1/stat"; } 2> /dev/null || stat=
      if [ ! -e "$2" ]; then
        [ -n "$stat" ] || break # slurmd has taken its end
        if [[ $stat != *") Z "* ]] || [ $((left -= 1)) -gt 0 ]; then sleep 1; continue; fi
      elif [ -n "$stat" ] && [[ $stat != *") Z "* ]]; then
        sleep 1; continue
      fi
      record=$(timeout 10 scontrol -o show job "$3") || { sleep 2; continue; }
      if [[ "$record " == *" JobState=RUNNING Reason=Prolog "* && "$record " == *" BatchFlag=0 "* ]]; then
        timeout 10 scancel "$3"
      elif [[ "$record " == *" JobState=RUNNING Reason=Prolog "* ]]; then
        timeout 10 scontrol update "jobid=$3" requeue=1
        timeout 10 scontrol requeue "$3"
        [[ "$record " != *" Requeue=0 "* ]] || timeout 10 scontrol update "jobid=$3" requeue=0
      fi
      rm -f "$2"
      break
    done' sunkpy-prolog $$ "$waiting" "$SLURM_JOB_ID" "$own" < /dev/null > /dev/null 2>&1 &
  for _ in {1..250}; do [ -s "$waiting" ] && return; sleep 0.02; done # until then it would be ended as well
}

if [ -n "$others" ]; then
  hook=gate
  requeue_if_cut_short
  read_settings || fail "no $settings_file, and pods may be here: see $markers"
  [ -n "${SUNKPY_HOOKS_URL:-}" ] || fail "no scheduler to ask, and pods may be here: see $markers"
  ask_until_done gate "$SUNKPY_EPILOG_TIMEOUT_S" "$SUNKPY_OUTAGE_TIMEOUT_S" ", \"marked\": [$others]" ||
    fail "$why"
  rm -f "$waiting"
  forget_those_over
  hook=prolog
fi

# The scheduler binds the pods; wait for it. Late is no failure: it also binds when it sees the job run.
if is_placeholder && [ -n "${SUNKPY_HOOKS_URL:-}" ]; then
  ask_until_done prolog "$SUNKPY_PROLOG_TIMEOUT_S" "$SUNKPY_PROLOG_TIMEOUT_S"
fi
run_site prolog "$later" || fail "$why"
[ ! -d "${joined%/*}" ] || mkdir -p "$joined"
exit 0
