# Epilog of every job. The node stays COMPLETING, and so nobody else's, until this returns. Failing drains the node, which
# is right when a pod or a process of the job may still be there.
hook=epilog

# Processes of the job's user that carry the job's number. Without cgroups one that became a daemon has left Slurm's sight.
# Other jobs of the same user carry another number. Root's are left alone: Slurm's own are among them.
left_processes() {
  local file pid uid
  grep -lzsxF "SLURM_JOB_ID=$SLURM_JOB_ID" /proc/[0-9]*/environ | while read -r file; do
    pid=${file#/proc/} pid=${pid%/environ}
    uid=$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status" 2> /dev/null)
    [ "$uid" != "$SLURM_JOB_UID" ] || echo "$pid"
  done
}

# Processes of sshd that came in as a part of the job, and those that serve the connection: sessions carry the job's number,
# but more of them can be opened over a connection that stays. Once the folder is gone nobody comes in any more.
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

# SIGTERM, and SIGKILL when KillWait is over, as Slurm does with those that it sees.
end_processes() {
  local signal=TERM pids
  SECONDS=0
  while pids=$(left_processes; left_connections) && [ -n "$pids" ] || [ -d "$joined" ]; do
    [ "$SECONDS" -lt "$SUNKPY_KILL_WAIT_S" ] || signal=KILL
    [ "$SECONDS" -lt $((SUNKPY_KILL_WAIT_S + 20)) ] || fail "processes do not end: ${pids//$'\n'/ }"
    [ "$signal" != "${sent:-}" ] || [ "$signal" = KILL ] || { sleep 0.1; continue; }
    sent=$signal
    say "SIG$signal to what the job left: ${pids//$'\n'/ }"
    # shellcheck disable=SC2086
    kill "-$signal" $pids 2> /dev/null
    sleep 0.1
  done
}

await_pods() {
  # The comment may have been changed since the prolog, which left its mark.
  is_placeholder || [ -e "$marker" ] || return 0
  read_settings || fail "no $settings_file, and pods may be here"
  [ -n "${SUNKPY_HOOKS_URL:-}" ] || return 0
  # A slurmd that ends takes its scripts along: SIGTERM, and SIGKILL 10 ms later. What is asked here is asked again by the
  # Prolog of the next job, as long as the marker stays; failing would drain a node at which nobody has to look.
  trap '[ -z "$broken" ] && [ -e "$marker" ]; exit' TERM
  ask_until_done epilog "$SUNKPY_EPILOG_TIMEOUT_S" "$SUNKPY_EPILOG_TIMEOUT_S" || fail "$why"
  trap - TERM
  # Kept: the job is over for Slurm, and pods stay.
  [[ $body =~ \"kept\":\ *true ]] || rm -f "$marker"
}

# A script of the site that fails drains the node, but not before the job has left it.
broken=''
run_site epilog "$first" || broken=$why
if [ "${SLURM_JOB_UID:-0}" != 0 ]; then end_processes; fi
rm -rf "$containers/$SLURM_JOB_ID"-*
await_pods
run_site epilog "$later" || broken=${broken:-$why}
[ -z "$broken" ] || fail "$broken"
exit 0
