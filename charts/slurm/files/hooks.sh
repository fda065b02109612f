# Shared by prolog.sh and epilog.sh, which Slurm runs as root in the slurmd pod with an empty environment: start-slurmd writes the
# variables that they need into a file. A marker is an empty file named after a placeholder job whose pods may be on this node.

umask 077
export PATH=${SUNKPY_PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
token_file=${SUNKPY_TOKEN_FILE:-/var/run/secrets/sunkpy/token}
settings_file=${SUNKPY_HOOKS_ENV:-/etc/sunkpy/hooks.env}
markers=${SUNKPY_MARKERS:-/var/lib/sunkpy/markers}
site=${SUNKPY_SITE:-/etc/sunkpy/site}
marker=$markers/$SLURM_JOB_ID
# This file exists once the Prolog of the job has ended on this node. requeue-lost looks for it.
passed=$markers/passed/$SLURM_JOB_ID
# With sshd beside slurmd (compute.ssh): a folder with a file for each process of sshd that belongs to this job.
joined=${SUNKPY_JOINED:-/run/sunkpy-sshd}/$SLURM_JOB_ID

# Folder with Slurm's folders JOB-STEP for containers of jobs (oci.conf).
containers=${SUNKPY_CONTAINERS:-/var/spool/slurmd/containers}

# With hooks.jobMappingHostPath: a folder with a file for each GPU, in which dcgm-exporter reads the GPU's job.
gpu_jobs=${SUNKPY_GPU_JOBS:-/var/lib/sunkpy/gpu-jobs}

# For each user a folder with a file for each of their jobs here, from the begin of its Prolog to the end of its Epilog. In a pod
# of an older image this folder does not exist.
users=${SUNKPY_USERS:-/var/spool/slurmd/users}
user=$users/${SLURM_JOB_UID:-0}

# Run a function under a lock of the job's user, so that their Prologs and Epilogs on this node run it one after the other. Not
# for system users, whose jobs are not counted. File 8 has the process id of the program that removes the user's files, which
# holds its lock.
in_turn() {
  [ "${SLURM_JOB_UID:-0}" -ge 1000 ] && [ -d "$users" ] || return 0
  (flock 9 && "$@") 8<> "$user.cleaner" 9> "$user.lock"
}

say() { echo "$hook of job $SLURM_JOB_ID: $*" >&2; }

is_placeholder() { [[ ${SLURM_JOB_COMMENT:-} == k8s:* ]]; }

# The name of the job's gang in the comment, with unit and generation. This part of the comment has no character that could end a
# string in JSON.
gang=
gang_form='^k8s:[a-z0-9-]+/[A-Za-z0-9._-]+:[A-Za-z0-9-]+(/[A-Za-z0-9._-]+)?(@[A-Za-z0-9._-]+)?'
[[ ! ${SLURM_JOB_COMMENT:-} =~ $gang_form ]] || gang=${BASH_REMATCH[0]}

# Read the variables of start-slurmd. False if there is no file: then nobody knows whether there is a scheduler to ask.
# shellcheck source=/dev/null
read_settings() { [ -r "$settings_file" ] && . "$settings_file"; }

# Ask $1 about this job, with further JSON in $2. Prints the body, and in a last line the HTTP status, 000 without an answer.
# The token goes through a pipe: everybody in the pod can read a command line.
ask() {
  local token
  token=$(< "$token_file") || { echo 000; return; }
  curl --silent --show-error --write-out '\n%{http_code}' \
    --connect-timeout 3 --max-time 30 \
    --location --location-trusted --post301 --post302 --post303 --max-redirs 4 --noproxy '*' \
    --request POST --header 'Content-Type: application/json' --config - \
    --data "{\"job_id\": $SLURM_JOB_ID, \"node\": \"$SLURMD_NODENAME\", \"gang\": \"$gang\"${2:-}}" \
    "$SUNKPY_HOOKS_URL/hooks/v1/$1" <<< "header = \"Authorization: Bearer $token\""
}

# Ask $1 until done, at most $2 seconds, and give up after $3 in a row without an answer; $4 is sent as well. Time without an
# answer does not count for $2, because a scheduler that does not answer evicts no pod. A refusal counts only when it lasts
# SUNKPY_REFUSAL_S seconds: the scheduler may not have seen this slurmd pod yet, and after a long outage of the apiserver the
# kubelet takes some three minutes to renew the expired token. Sets `body` to the last answer, and `why` to the error. Returns 1
# if it is not done in time, 2 if nobody answers.
ask_until_done() {
  local question=$1 limit=$2 outage=$3 pause=0.1 status heard=0 refused='' silent=''
  SECONDS=0
  while :; do
    body=$(ask "$question" "${4:-}")
    status=${body##*$'\n'} body=${body%$'\n'*}
    # The answer may be cut off, or may come from another pod that now has the leader's address.
    [[ $status != 20[02] || $body =~ ^\{.*\"done\":\ *(true|false).*\}$ ]] || status+=", not the scheduler's words"
    case $status in
      200) return 0 ;;
      202 | 400 | 401 | 403)
        [ -z "$silent" ] || limit=$((limit + SECONDS - heard))
        heard=$SECONDS silent=''
        if [ "$status" = 202 ]; then
          pause=0.1 refused='' why="still waiting after $2 s"
        else
          : "${refused:=$SECONDS}"
          why="the scheduler refused with HTTP $status"
          [ $((SECONDS - refused)) -lt "$SUNKPY_REFUSAL_S" ] && [ "$status" != 400 ] || break
        fi
        [ "$SECONDS" -lt "$limit" ] || break
        ;;
      *)
        silent=1 refused='' why="no answer from the scheduler for $outage s (HTTP $status)"
        [ $((SECONDS - heard)) -lt "$outage" ] || break
        ;;
    esac
    [ "$status" = 202 ] && continue # the scheduler held the question as long as it could: ask again at once
    say "the scheduler was asked: HTTP $status, next try in $pause s"
    sleep "$pause"
    case $pause in 0.1) pause=0.3 ;; 0.3) pause=1 ;; 1) pause=3 ;; esac
  done
  [[ $status != 202 || ! $body =~ \"why\":\ *\"([^\"\\]*)\" ]] || why+=": ${BASH_REMATCH[1]}"
  say "$why"
  return $((1 + ${silent:-0}))
}

# The scripts of the site for $1 (prolog, epilog) whose names match $2, by name, as root with Slurm's variables. Sets
# `why` to the one that failed; those after it do not run. What they make has the rights that it would have under slurmd itself, so
# that a job can enter a folder that `mkdir -p` made for it.
run_site() {
  local script code
  for script in "$site/$1.d"/$2; do
    [ -f "$script" ] && [ -x "$script" ] || continue
    code=0
    (umask 022 && exec timeout --kill-after=5 "$SUNKPY_SCRIPT_TIMEOUT_S" "$script" < /dev/null >&2) || code=$?
    [ "$code" != 0 ] || continue
    why="${script##*/} failed with $code"
    [ "$code" != 124 ] && [ "$code" != 137 ] || why="${script##*/} took more than $SUNKPY_SCRIPT_TIMEOUT_S s"
    return 1
  done
}
first='[0-4]*' later='[5-9A-Za-z_]*'

# Fail, which makes Slurm drain the node, and set a reason of our own before: Slurm would keep an existing reason, and the syncer
# lifts drains whose reason starts with "k8s: ". A drain, DOWN or FAIL that a person set stays as it is. DOWN with one of two
# reasons is slurmctld's own, and is replaced. slurmctld adds " : Not responding" to any reason, even to a blank one.
fail() {
  local record
  say "$*"
  record=$(timeout 10 scontrol -o show node "$SLURMD_NODENAME" 2> /dev/null)
  if [[ ! $record =~ \ State=(DOWN|[^\ ]*(DRAIN|FAIL)) || $record == *" Reason=k8s: "* ||
    $record =~ \ State=DOWN.*\ Reason=[\ :]*(Not responding|Node unexpectedly rebooted)(\ :\ Not\ responding)*\ \[ ]]; then
    timeout 10 scontrol update "nodename=$SLURMD_NODENAME" state=drain "reason=sunkpy $hook: $*" ||
      say "cannot set the reason of $SLURMD_NODENAME"
  fi
  exit 1
}
