# Epilog of every job. Until it returns, the node is COMPLETING, and Slurm gives it to no other job. A failure drains the node, so
# it fails when a pod or a process of the job may still be there.
hook=epilog

# Print the processes of the job's user that have the job's id in their environment. Without cgroups Slurm does not see a process
# that became a daemon. Processes of root are left out, because Slurm's own are among them.
left_processes() {
  local file pid uid
  grep -lzsxF "SLURM_JOB_ID=$SLURM_JOB_ID" /proc/[0-9]*/environ | while read -r file; do
    pid=${file#/proc/} pid=${pid%/environ}
    uid=$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status" 2> /dev/null)
    [ "$uid" != "$SLURM_JOB_UID" ] || echo "$pid"
  done
}

# Print the processes of sshd that belong to the job: its sessions, and their connections, over which further sessions could be
# opened. Once the folder $joined is gone, no new session can join the job.
left_connections() {
  local note sshd
  [ -d "$joined" ] || return 0
  for note in "$joined"/*.*; do
    sshd=${note##*/} sshd=${sshd%.*}
    if [ "$(cut -d ' ' -f 22 "/proc/$sshd/stat" 2> /dev/null)" = "${note##*.}" ]; then
      echo "$sshd"
      pgrep --parent "$sshd"
    else
      rm -f "$note"
    fi
  done
  rmdir "$joined" 2> /dev/null || true
}

# Send what the job left SIGTERM, and SIGKILL after KillWait, as Slurm does itself.
end_processes() {
  local signal=TERM pids
  SECONDS=0
  while pids=$(left_processes; left_connections) && [ -n "$pids" ] || [ -d "$joined" ]; do
    [ "$SECONDS" -lt "$SUNKPY_KILL_WAIT_S" ] || signal=KILL
    [ "$SECONDS" -lt $((SUNKPY_KILL_WAIT_S + 20)) ] || fail "processes of the job do not end: ${pids//$'\n'/ }"
    [ "$signal" != "${sent:-}" ] || [ "$signal" = KILL ] || { sleep 0.1; continue; }
    sent=$signal
    say "SIG$signal to what the job left: ${pids//$'\n'/ }"
    # shellcheck disable=SC2086
    kill "-$signal" $pids 2> /dev/null
    sleep 0.1
  done
}

await_pods() {
  # The job's comment may have been changed since the Prolog, so look for the marker, too.
  is_placeholder || [ -e "$marker" ] || return 0
  read_settings || fail "pods of the job may be on the node, and $settings_file is missing, which names the scheduler to ask"
  [ -n "${SUNKPY_HOOKS_URL:-}" ] || return 0
  # When slurmd ends, it kills its scripts by SIGTERM, and by SIGKILL 10 ms later. Then succeed if the marker stays, because the
  # Prolog of the next job asks again. A failure would drain the node without need.
  trap '[ -z "$broken" ] && [ -e "$marker" ]; exit' TERM
  until ask_until_done epilog "$SUNKPY_EPILOG_TIMEOUT_S" "$SUNKPY_OUTAGE_TIMEOUT_S"; do
    [ $? = 2 ] || fail "$why" # while nobody answers, wait: the node is neither given away nor drained
  done
  trap - TERM
  # The answer "kept" means that the pods stay although the job has ended in Slurm: then keep the marker.
  [[ $body =~ \"kept\":\ *true ]] || rm -f "$marker"
}

# Slurm starts the parts of a heterogeneous job one after the other. If pods or jobs still leave the nodes of one part, Slurm
# takes the other parts back and tries again two minutes later, while nodes are idle. So the Epilog on the first node of the part
# asks Slurm for an earlier start.
begin_soon() {
  [ -n "${SLURM_HET_JOB_ID:-}" ] && [ "$SLURM_HET_JOB_ID" != 0 ] || return 0
  [ "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)" = "$SLURMD_NODENAME" ] || return 0
  setsid begin-soon "$SLURM_JOB_ID" < /dev/null > /dev/null 2>&1 &
}

# After the last job of a user on this node, remove the files that they left in the folders of jobs. There may be millions of
# files, so the removal runs in the background. The Prolog of the user's next job ends it, so that no file of a running job is
# removed. Nothing is removed while the user has a process here.
# shellcheck disable=SC2329 # in_turn calls it
remove_files() {
  [ -e "$user/$SLURM_JOB_ID" ] || return 0
  rm "$user/$SLURM_JOB_ID"
  rmdir "$user" 2> /dev/null && [ "$SUNKPY_CLEAN_TMP" = true ] && read_settings || return 0
  pgrep --uid "$SLURM_JOB_UID" > /dev/null || pgrep --euid "$SLURM_JOB_UID" > /dev/null || start_removal
}
# shellcheck disable=SC2329 # remove_files calls it
start_removal() {
  local folders session
  read -r -a folders <<< "${SUNKPY_FOLDERS:-}"
  [ ${#folders[@]} != 0 ] && flock --nonblock 8 || return 0
  setsid nice -n 19 find "${folders[@]}" -xdev -mindepth 1 -uid "$SLURM_JOB_UID" -delete < /dev/null > /dev/null 2>&1 9>&- &
  echo $! > "$user.cleaner"
  # slurmd kills what a script leaves in its own session.
  for _ in {1..250}; do
    session=$(ps -o sid= -p $!) && [ "${session// /}" != $! ] || break
    sleep 0.02
  done
}

# If a script of the site fails, the Epilog fails, too, and drains the node, but only after the job has left it.
begin_soon
rm -f "$passed" 2> /dev/null
broken=''
run_site epilog "$first" || broken=$why
if [ "${SLURM_JOB_UID:-0}" != 0 ]; then end_processes; fi
rm -rf "$containers/$SLURM_JOB_ID"-*
await_pods
[ ! -d "$gpu_jobs" ] || grep -lsxF "$SLURM_JOB_ID" "$gpu_jobs"/* | while read -r file; do rm -f "$file"; done
run_site epilog "$later" || broken=${broken:-$why}
in_turn remove_files
[ -z "$broken" ] || fail "$broken"
exit 0
