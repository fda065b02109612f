#!/bin/bash
# Checks whether a part of Slurm starts on a new configuration: it starts the part alone, with an empty state, until it has read
# its files. Running parts are not touched. If the part cannot start, the script prints Slurm's own words and exits with 3. It
# also exits with 3 if the running slurmctld is of a later release than this one, because this one could not read the saved
# state; if Slurm does not know the QoS of a partition; if a program or plugin that slurm.conf names is not in the image; and if a
# shell cannot read a script of the site.
#   check-config slurmctld|slurmdbd
#   check-config slurmd|login IMAGE [FOLDER...]
#     IMAGE   where the image stands in the values
#     FOLDER  a folder that these pods get from a volume, and this one does not: files below it are not looked for
#   /config     slurm.conf and what goes with it, or slurmdbd.conf
#   /keys       slurm.key or slurm.jwks, to be read, and to ask the slurmctld that runs
#   /etc/slurm  empty and writable
#   /etc/sunkpy/site/{prolog,epilog}.d  scripts of the site around jobs, for slurmd
#   SUNKPY_QOS  the QoS that the values describe, separated by spaces, for slurmctld
set -euo pipefail
unset SLURM_JWT
umask 077
daemon=$1 image=${2:-images.$1} folders=("${@:3}")
scratch=$(mktemp -d)
# Print the errors of the part, and exit with 3, so that the Job does not try again.
refuse() {
  echo "$1 does not start on these values:"
  grep -E 'error:|fatal:' "$scratch/log" | sed -E 's/^.*(error|fatal): /  /' || cat "$scratch/log"
  exit 3
}
# Keys of slurm.conf that name programs, by the part that runs them.
declare -A of_part=(
  [slurmctld]="MailProg PrologSlurmctld EpilogSlurmctld SlurmctldPrimaryOnProg SlurmctldPrimaryOffProg"
  [slurmd]="TaskProlog TaskEpilog SrunProlog SrunEpilog HealthCheckProgram UnkillableStepProgram"
  [login]="SrunProlog SrunEpilog"
  [slurmdbd]=""
)
read -ra programs <<< "${of_part[$daemon]}"
mkdir "$scratch/ask"
if [ "$daemon" = slurmctld ] && install -m 0600 /keys/slurm.* "$scratch/ask/" 2> /dev/null; then
  cp -L /config/slurm.conf "$scratch/ask/"
  export SLURM_CONF=$scratch/ask/slurm.conf
  install -d /run/slurm
  sackd -D > "$scratch/ask/log" 2>&1 & # scontrol needs it to authenticate
  sackd=$!
  for _ in {1..50}; do [ ! -S /run/slurm/sack.socket ] || break; sleep 0.1; done
  # A slurmctld of an earlier release answers no newer client, and one that is away does not answer.
  runs=$(timeout 5 scontrol show config 2> /dev/null | sed -n 's/^SLURM_VERSION *= //p') || true
  # Without accounting it has none.
  has_qos=$(timeout 5 scontrol -o show assoc_mgr flags=qos 2> /dev/null | sed -n 's/^QOS=\([^(]*\)(.*/\1/p') || true
  kill "$sackd" 2> /dev/null || true # if sackd cannot read the keys, it has already ended
  unset SLURM_CONF
  own=$(slurmctld -V | sed 's/.* //')
  if [ "$(printf '%s\n' "${own%.*}" "${runs%.*}" | sort -V | tail -n 1)" != "${own%.*}" ]; then
    echo "slurmctld $runs runs here, and slurmctld $own cannot read its saved state. Keep images.slurmctld and images.slurmdbd"
    echo "at $runs, or restore a backup of $own into a new namespace: docs/tasks/upgrade.md"
    exit 3
  fi
  # slurmctld ends at its start if slurmdbd has no such QoS. sunkpy makes those of the values a moment later.
  # shellcheck disable=SC2086 # words
  known=$(printf '%s\n' $has_qos ${SUNKPY_QOS-} | sort -u)
  while read -r partition qos; do
    if [ -z "$has_qos" ] || [ -z "$qos" ] || grep -qixF -e "$qos" <<< "$known"; then continue; fi
    echo "partitions.$partition.conf.QOS: Slurm has no QoS $qos, and slurmctld would not start. Describe it in accounts.wanted.qos,"
    echo "make it with sacctmgr, or name one of these: ${known//$'\n'/, }"
    exit 3
  done <<< "$(sed -nE 's/^PartitionName=([^ ]+) (.* )?QOS="?([^" ]+).*/\1 \3/Ip' /config/slurm.conf)"
fi
cp -L /config/* /etc/slurm/
chmod 0644 /etc/slurm/*.conf
for script in /etc/slurm/*.sh; do [ ! -e "$script" ] || chmod 0755 "$script"; done
install -m 0600 /keys/slurm.* /etc/slurm/ 2> /dev/null || head -c 64 /dev/urandom > /etc/slurm/slurm.key
head -c 64 /dev/urandom > /etc/slurm/jwt.key
conf=/etc/slurm/slurm.conf
[ "$daemon" != slurmdbd ] || conf=/etc/slurm/slurmdbd.conf

# Print the values of key $1 in slurm.conf.
values_of() { sed -nE "s/^$1=\"?([^\"#]*)\"?.*/\1/Ip" "$conf"; }
is_brought() {
  local folder
  for folder in "${folders[@]}"; do [[ $1 != "$folder"/* ]] || return 0; done
  return 1
}
missing=()
for key in "${programs[@]}"; do
  while read -r program _; do
    [[ $program != /* || $program == /run/slurm/conf/* || -x $program ]] || is_brought "$program" || missing+=("$key=$program: there is no such program")
  done <<< "$(values_of "$key")"
done
[ "$daemon" != slurmd ] || [ -x /usr/local/bin/take-scratch ] ||
  missing+=("compute.scratch: the image has no program take-scratch: build it again on the slurmd image of this release")
[ "$daemon" != slurmd ] || [ -z "$(values_of JobContainerType)" ] || grep -qs /etc/slurm/private.conf /usr/local/bin/start-slurmd ||
  missing+=("slurmConfig.privateTmp: start-slurmd of the image is older: build the image again on the slurmd image of this release")
[ "$image" != images.login ] || grep -qs /run/login /usr/local/bin/start-sackd ||
  missing+=("login: start-sackd of the image is older: build the image again on the login image of this release")
[ "$daemon" != slurmctld ] || [ -x /usr/local/bin/weigh-users ] ||
  missing+=("job_submit.lua: the image has no program weigh-users: build it again on the slurmctld image of this release")
[ "$daemon" != slurmctld ] || [[ $(/usr/sbin/slurmctld -V) != *" 24."* ]] || ! grep -qs '^- topology: block' /config/topology.yaml ||
  missing+=("topology.plugins: block needs Slurm 26.05: slurmctld 24.11 ends if a block has fewer nodes than its size")
case $daemon in
  slurmctld | slurmd)
    [[ -e /config/topology.conf || ! -e /config/topology.yaml || $("/usr/sbin/$daemon" -V) != *" 24."* ]] ||
      missing+=("slurmConfig.files: topology.yaml needs Slurm 26.05: 24.11 reads only topology.conf")
    ;;
esac
# Succeed if shell $1 can read file $2. Patterns such as @(a|b) need an option that the script may set itself, which happens only
# when it runs.
can_read() { "$1" -n "$2" 2> /dev/null || { [ "${1##*/}" = bash ] && "$1" -O extglob -n "$2" 2> /dev/null; }; }
# Succeed if shell $1 can read script $2 up to a line at which the script always ends. The shell reads nothing after that line,
# which may be an archive that the script unpacks. A lone ";" is an error only where a command may begin: not after a \ or <<EOF.
always_ends() {
  local lines line head=$scratch/head end='(exit([[:space:]]+["$?{}[:alnum:]_]+)?|exec[[:space:]]+"?[/[:alpha:]][^#<>;&|]*)'
  lines=$(LC_ALL=C grep -anE "^([^#]*[^#\\;];)?[[:space:]]*${end}[[:space:]]*(;[[:space:]]*)?(#.*)?\$" "$2" | cut -d: -f1) || return
  for line in $lines; do
    head -n $((line - 1)) "$2" > "$head"
    can_read "$1" "$head" || continue
    echo ";" >> "$head"
    ! can_read "$1" "$head" || continue
    head -n "$line" "$2" > "$head"
    ! can_read "$1" "$head" || return 0
  done
  return 1
}
# Stop if shell $1 cannot read script $2, which stands in the values as $3.
check_syntax() {
  local problem
  ! can_read "$1" "$2" || return 0
  problem=$("$1" -n "$2" 2>&1) || true
  echo "${1##*/} cannot read $3:"
  problem=${problem//"${2%/*}/"/}
  echo "  ${problem//$'\n'/$'\n  '}"
  exit 3
}
[ ! -e /etc/slurm/task_hooks.sh ] ||
  check_syntax bash /etc/slurm/task_hooks.sh "hooks.taskProlog and hooks.taskEpilog, one below the other"
for script in /etc/sunkpy/site/*.d/*; do
  [ -f "$script" ] || continue
  { read -r line || true; } < "$script"
  [[ $line == "#!"* ]] || continue
  hook=${script%.d/*}
  read -r program word _ <<< "${line#"#!"}"
  [[ $program != */env || $word == -* ]] || program=$(type -P "$word" || echo "$word")
  if is_brought "$program"; then continue; fi
  case ${program##*/} in
    bash | sh | dash) [ ! -x "$program" ] || always_ends "$program" "$script" || check_syntax "$program" "$script" "hooks.${hook##*/}ConfigMap" ;;
  esac
  [ -x "$program" ] || missing+=("hooks.${hook##*/}ConfigMap: ${script##*/}: there is no ${program@Q}")
done
mpi=$(values_of MpiDefault)
case $daemon in
  slurmd | login)
    sed -i 's|^include /etc/sunkpy/|include site-|' /etc/slurm/plugstack.conf
    for folder in "${folders[@]}"; do
      sed -i -E "\#^[[:space:]]*(required|optional)[[:space:]]+$folder/#d" /etc/slurm/*plugstack.conf
    done
    # If srun itself does not start, the check below says so.
    has=$(srun --mpi=list 2>&1) || true
    [[ -z $mpi || $has != *"plugin types are"* ]] || grep -qw -e "$mpi" <<< "$has" || missing+=("MpiDefault=$mpi: there is no such plugin")
    ;;
esac
if [ ${#missing[@]} != 0 ]; then
  echo "$image lacks what these values name:"
  printf '  %s\n' "${missing[@]}"
  exit 3
fi

if [ "$daemon" = login ]; then
  # This loads all plugins that each srun, sbatch and salloc loads.
  srun --help > /dev/null 2> "$scratch/log" && exit 0
  refuse "srun of $image"
fi
# Leave out keys that say where the part keeps files and whom it calls: they do not matter for this check.
without='[A-Za-z]*PidFile|[A-Za-z]*LogFile|[A-Za-z]*Debug|DebugLevel|SlurmctldHost|StateSaveLocation|AccountingStor[A-Za-z]*|DbdHost|StorageHost'
# slurmd runs here without root and without cgroups, and must run no program of the site: leave out keys that need these.
[ "$daemon" != slurmd ] || without+='|SlurmdSpoolDir|SlurmdUser|PrologFlags|ProctrackType|JobContainerType|NamespaceType|HealthCheckProgram|JobAcctGatherType'
# Leave out what only the database knows: QoS, and TRES other than Slurm's own.
sed -i -E "/^($without|PriorityWeightTRES)=/Id; /^PartitionName=/I s/ (TRESBillingWeights|QOS|AllowQos|DenyQos)=[^ ]*//Ig" "$conf"
echo >> "$conf"
args=(-D)
if [ "$daemon" = slurmdbd ]; then
  chmod 0600 "$conf" # Slurm demands this for a file with a password
  printf '%s\n' "PidFile=$scratch/pid" "DbdHost=localhost" "StorageHost=127.0.0.1" "DebugLevel=info" >> "$conf"
else
  printf '%s\n' "SlurmctldHost=$(hostname)(localhost)" "StateSaveLocation=$scratch" "SlurmctldPidFile=$scratch/pid" "SlurmctldDebug=info" >> "$conf"
fi
if [ "$daemon" = slurmd ]; then
  printf '%s\n' "SlurmdSpoolDir=$scratch/spool" "SlurmdUser=slurm" "ProctrackType=proctrack/linuxproc" \
    "JobAcctGatherType=jobacct_gather/none" "SlurmdPidFile=$scratch/pid" "SlurmdDebug=info" >> "$conf"
  sed -i -E '/^TaskPlugin=/I { s/(=|,)task\/cgroup/\1/I; s/=,/=/; s/,$//; s/=$/=task\/none/ }' "$conf"
  echo "CgroupPlugin=disabled" > /etc/slurm/cgroup.conf
  sed -i '/^Include /Id' /etc/slurm/gres.conf
  mkdir "$scratch/spool"
  args+=(-Z -N check --conf "CPUs=1 RealMemory=1")
fi
: > "$scratch/log" # on a busy machine the loop below reads this file before the daemon has written it
"/usr/sbin/$daemon" "${args[@]}" >> "$scratch/log" 2>&1 &
pid=$!

# slurmctld and slurmd have read everything when they run; slurmdbd when it looks for its database, which it does not find here.
has_read() { grep -qE 'Running as primary controller|slurmd started on|slurmdbd version|mysql_real_connect|Database settings' "$scratch/log"; }
for _ in {1..300}; do
  kill -0 "$pid" 2> /dev/null || break
  has_read && break
  sleep 0.1
done
if has_read && kill -0 "$pid" 2> /dev/null; then
  kill -KILL "$pid"
  exit 0
fi
if kill -0 "$pid" 2> /dev/null; then
  kill -KILL "$pid"
  echo "check-config: $daemon has not read its configuration within 30 s: the machine is slow, or $daemon waits for something"
  exit 1
fi
[ "$daemon" != slurmd ] || daemon+=" of $image"
refuse "$daemon"
