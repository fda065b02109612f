# Prolog of every job. Slurm runs no process of the job before the Prolog has ended. So the Prolog waits until the pods of earlier
# jobs have left the node, even if the Epilogs of these jobs did not run.
hook=prolog
rm -f "$passed" 2> /dev/null # from an earlier run of the job, or from an earlier job with the same id

# Before the job starts, note it in the folder of its user and end a running removal of the user's files.
# shellcheck disable=SC2329 # in_turn calls it
keep_files() {
  local left=100
  { mkdir -p "$user" && : > "$user/$SLURM_JOB_ID"; } || say "cannot write $user/$SLURM_JOB_ID"
  until flock --nonblock 8 || [ $((left -= 1)) = 0 ]; do
    kill -KILL "$(< "$user.cleaner")" 2> /dev/null
    sleep 0.05
  done
}
in_turn keep_files

run_site prolog "$first" || fail "$why"

# start-slurmd makes this folder. A pod of an older image lacks it: Slurm would make a folder that the user owns, and use it as
# root. If root owns the folder, no container starts there.
mkdir -p "$containers"

# slurmd gives a job the device files that it found at its start, and a pod gets the GPU by the uuid of that time. If the driver
# is loaded again without a GPU that failed, the files have other numbers, and a job and a pod could get the same GPU. So fail if
# a GPU has another number now. MIG slices are checked by their card.
listed_gpus=${SUNKPY_GPUS:-/etc/sunkpy/gpus} # list-gpus wrote this when slurmd started
driver=${SUNKPY_NVIDIA:-/proc/driver/nvidia/gpus}
if [ -n "${SLURM_JOB_GPUS:-}" ] && [ -r "$listed_gpus" ]; then
  while read -r _ files _ pci; do
    { card=$(< "$driver/$pci/information"); } 2> /dev/null || continue
    [[ $card =~ Device\ Minor:[[:space:]]*([0-9]+) ]] || continue
    [[ ${files%%,*} == */nvidia"${BASH_REMATCH[1]}" ]] || fail "GPU $pci is nvidia${BASH_REMATCH[1]} now, and was" \
      "${files%%,*} when slurmd started: delete the slurmd pod, then resume the node"
  done < "$listed_gpus"
fi

# Write the marker of a placeholder job before the scheduler is asked: after that, pods may be bound to this node.
if is_placeholder; then
  read_settings || fail "$settings_file is missing, which start-slurmd writes"
  if [ -n "${SUNKPY_HOOKS_URL:-}" ]; then
    # In a pod of an older chart the folder is no volume, and the marker lasts only as long as the container.
    mkdir -p "$markers"
    : > "$marker" || fail "cannot write $marker, so no pod may come here"
  fi
fi

# Other jobs with markers, separated by commas. Without any, the node has no pods, and the scheduler is not asked. If this job is
# no placeholder, a marker with its id belongs to an older job: Slurm starts again with low ids when it has lost its state.
others='' own=''
if is_placeholder; then own=$SLURM_JOB_ID; fi
for found in "$markers"/*; do
  job=${found##*/}
  [[ $own == "$job" || ! $job =~ ^[0-9]+$ ]] || others+=${others:+,}$job
done

# Remove the markers of ended jobs whose pods have left. The scheduler names these jobs in its answer.
forget_those_over() {
  local job
  [[ $body =~ \"over\":\ *\[([0-9,\ ]*)\] ]] || return 0
  for job in ${BASH_REMATCH[1]//,/ }; do
    [ "$job" = "$SLURM_JOB_ID" ] || rm -f "$markers/$job"
  done
}

# Requeue this job, which waits in its Prolog. If its script belongs to this node, nothing of it has run yet, so its owner's
# --no-requeue does not count. Returns true if Slurm says that the job will not begin here; `is_away` is set if Slurm had taken
# the job away before. $1 says why slurmd forgot the Prolog, if it did: then an allocation, which Slurm cannot requeue, is
# cancelled, and a job that has begun is left alone. For a task of an array, `scontrol` would apply the id to all tasks.
queue_again() {
  local record id=$SLURM_JOB_ID code=0
  is_away=
  record=$(timeout 10 scontrol -o show job "$id" 2>&1) || { [[ $record == *"Invalid job id"* ]]; return; }
  record="$(grep "^JobId=$id " <<< "$record") " || return
  [[ $record == *" JobState="@(RUNNING|SUSPENDED|CONFIGURING)" "* ]] || { is_away=1; return 0; }
  # Another node of the job has requeued it, and it runs again.
  [[ -z ${SLURM_JOB_RESTART_COUNT:-} || "$record" != *" Restarts="* ]] ||
    [[ $record == *" Restarts=$SLURM_JOB_RESTART_COUNT "* ]] || { is_away=1; return 0; }
  [[ $record == *" JobState=RUNNING Reason=Prolog "* ]] || { [ -n "${1:-}" ]; return; }
  if [[ $record == *" BatchFlag=0 "* ]]; then
    [ -n "${1:-}" ] && timeout 10 scancel "$id" && say "the allocation is cancelled, because Slurm cannot requeue it: $1"
    return
  fi
  [ -n "${1:-}" ] || [[ $record == *" BatchHost=$SLURMD_NODENAME "* ]] || return
  [[ ! $record =~ \ ArrayJobId=([0-9]+)\ ArrayTaskId=([0-9]+)\  ]] || id=${BASH_REMATCH[1]}_${BASH_REMATCH[2]}
  timeout 10 scontrol update "jobid=$id" requeue=1
  timeout 10 scontrol requeue "$id" || code=1
  [[ $record != *" Requeue=0 "* ]] || timeout 10 scontrol update "jobid=$id" requeue=0
  [ "$code" != 0 ] || say "the job is requeued${1:+: $1}"
  [ "$code" != 0 ] || [ -z "${1:-}" ] || begin-soon "$SLURM_JOB_ID"
  return "$code"
}

# Watch a Prolog that waits at the gate, in a process that slurmd does not know. At `scontrol reconfigure` slurmd 24.11 gives a
# Prolog 10 s, then executes itself again, with a new pid file, and treats the Prolog as finished: the job would hold its node and
# never begin, and a later step or its script would begin beside the pods. So this process requeues the job then, or when its
# Prolog is killed. A Prolog that outlives its slurmd stays as a zombie. The job of a placeholder stays as it is once the gate is
# open, because its pods may be there.
#   $1 pid of the Prolog   $2 file of its wait   $3 its job if that is a placeholder   $4 pid file of slurmd
# Either the Prolog or this process goes on: the one whose `rm` removes the file $2. That the file is missing proves nothing: bash
# then treats $4 as newer.
# shellcheck disable=SC2329 # runs in the process that requeue_if_cut_short starts
watch_over() {
  local stat why='' left=5
  while [ -z "$why" ]; do
    { read -r stat < "/proc/$1/stat"; } || stat=
    if [ -n "$stat" ] && [[ $stat != *") Z "* ]]; then # the Prolog runs
      if [ "$4" -nt "$2" ] && rm "$2"; then why='slurmd started again and forgot its Prolog'
      elif [ -e "$2" ]; then sleep 0.2
      elif [ -z "$3" ]; then sleep 1
      else return
      fi
    elif rm "$2"; then why='its Prolog was killed'
    elif [ -z "$stat" ] || [ -n "$3" ]; then return # slurmd has noticed the Prolog's end, or pods may be on the node
    elif [ $((left -= 1)) = 0 ]; then why='slurmd forgot its Prolog'
    else sleep 1
    fi
  done 2> /dev/null
  until queue_again "$why"; do sleep 2; done
}

# Start the process that watches this Prolog. This process must not make the file, because the Prolog may have gone on before it
# starts.
requeue_if_cut_short() {
  waiting=$(mktemp) || return 0
  trap 'rm -f "$waiting"' EXIT
  # shellcheck disable=SC2016 # its own parameters
  hook=$hook setsid bash -c "$(declare -f say queue_again watch_over)"'
    { : >> "$5"; } 2> /dev/null && exec 2>> "$5"
    truncate --no-create --size=1 "$2"
    watch_over "$@"' sunkpy-prolog $$ "$waiting" "$own" \
    "${SUNKPY_SLURMD_PID_FILE:-/run/slurmd.pid}" "${SUNKPY_LOG:-/proc/1/fd/2}" < /dev/null > /dev/null 2>&1 &
  for _ in {1..250}; do [ -s "$waiting" ] && return; sleep 0.02; done # until then slurmd would end the watching process, too
}

# Wait at the gate until the scheduler says that the pods of earlier jobs have left. If the scheduler does not answer, no node is
# drained: the Prolog requeues a batch job, which Slurm tries again in two minutes. All other jobs go on waiting: Slurm cannot
# requeue an allocation, the script of a job may run on another of its nodes, and the pods of a placeholder job need the scheduler
# anyway. slurmd begins a job when its Prolog ends, unless slurmctld has told it that the job is away. So the Prolog ends some
# seconds later, and only if Slurm still says that the job is away.
await_gate() {
  until ask_until_done gate "$SUNKPY_EPILOG_TIMEOUT_S" "$SUNKPY_OUTAGE_TIMEOUT_S" ", \"marked\": [$others]"; do
    [ $? = 2 ] || fail "$why"
    [ -z "$own" ] && queue_again && sleep "${SUNKPY_AWAY_S:-10}" && queue_again && [ -n "$is_away" ] && exit 0
  done
}

if [ -n "$others" ]; then
  hook=gate
  requeue_if_cut_short
  read_settings || fail "pods of earlier jobs may be on the node ($markers), and $settings_file is missing, which names the scheduler to ask"
  [ -n "${SUNKPY_HOOKS_URL:-}" ] || fail "pods of earlier jobs may be on the node ($markers), and there is no scheduler to ask"
  await_gate
  [ -z "$waiting" ] || rm "$waiting" 2> /dev/null || exit 0 # the job is queued again
  forget_those_over
  hook=prolog
fi

# Wait until the scheduler has bound the pods. A timeout is no failure: the scheduler also binds pods when it
# sees that the job runs.
if is_placeholder && [ -n "${SUNKPY_HOOKS_URL:-}" ]; then
  ask_until_done prolog "$SUNKPY_PROLOG_TIMEOUT_S" "$SUNKPY_PROLOG_TIMEOUT_S"
fi
run_site prolog "$later" || fail "$why"
# Note in which pod, and at which address, the job's Prolog ended. With an older image of slurmd the address is empty.
address=$(cat "${SUNKPY_SPOOL:-/var/spool/slurmd}/address" 2> /dev/null) || address=''
{ mkdir -p "${passed%/*}" && echo "$address" > "$passed"; } 2> /dev/null || say "cannot write $passed"
[ ! -d "${joined%/*}" ] || mkdir -p "$joined"

# Write the job's id for each of its GPUs, over what an Epilog that did not run may have left. Without the file, dcgm-exporter
# only lacks a label.
if [ -d "$gpu_jobs" ]; then
  gpus=${SLURM_JOB_GPUS:-}
  for gpu in ${gpus//,/ }; do
    (umask 022 && echo "$SLURM_JOB_ID" > "$gpu_jobs/$gpu") || say "cannot write $gpu_jobs/$gpu"
  done
fi
exit 0
