#!/bin/bash
# start-slurmctld reads this file; it uses the functions and variables of start-slurmctld. The wanted topology is the chart's
# (/config), or what the syncer made of it (/topology). slurmctld ends if it cannot read a topology file, and 26.05 also if the
# file lacks a place that a node's record names: then it could never start again. So slurmctld starts with the files with which it
# ran last ($kept), and new files are tried before they are loaded.
# shellcheck disable=SC2154 # state and hosts are start-slurmctld's
kept=$state/topology
wanted=/run/slurmctld/topology

# Before slurmctld starts, copy the topology files with which it ran last. If slurmctld ended while it loaded new files, go back
# to the files before. The same new files are tried once more, and given up after the second time.
use_kept_topology() {
  local sum
  # slurmctld 24.11 would start no job on a node that registered after it read the topology. So only jobs that ask for switches
  # use the topology (TopoOptional).
  if [[ $(scontrol --version) == *" 24."* ]] && grep -qs '^# Made by sunkpy' /config/topology.conf; then
    if grep -qi '^TopologyParam=' /etc/slurm/slurm.conf; then
      sed -i '/^TopologyParam=/I s/$/,TopoOptional/' /etc/slurm/slurm.conf
    else
      echo TopologyParam=TopoOptional >> /etc/slurm/slurm.conf
    fi
  fi
  if [ -e "$kept.loading" ] && [ -d "$kept.before" ]; then
    sum=$(cat "$kept"/* 2> /dev/null | sha256sum)
    [ "$sum" != "$(cat "$kept.ended" 2> /dev/null)" ] || echo "$sum" > "$kept.refused"
    echo "$sum" > "$kept.ended"
    rm -rf "$kept" && mv "$kept.before" "$kept" && rm "$kept.loading"
    echo "start-slurmctld: slurmctld ended while it loaded a topology: it starts with the previous topology"
  fi
  [ -d "$kept" ] || return 0
  rm -f /etc/slurm/topology.{conf,yaml}
  cp "$kept"/* /etc/slurm/ 2> /dev/null || true # there may be none
  chmod 0644 /etc/slurm/*.conf
}

# Copy the wanted topology files into one folder, without empty files.
gather_topology() {
  local file
  rm -rf "$wanted" && mkdir -p "$wanted"
  for file in /config/topology.{conf,yaml} /topology/topology.{conf,yaml}; do
    [ ! -s "$file" ] || cp -L "$file" "$wanted/"
  done
}

# Print the topologies, and their roots and blocks, that records of nodes name and no wanted file has.
lacking_units() {
  local unit words
  words=$(cat "$wanted"/* 2> /dev/null | tr -s ' ":,=[]{}' '\n') || true
  scontrol -o --future show node | { grep -oE ' Topology=[^ ]+' || true; } | cut -d= -f2 | tr ',' '\n' | cut -d: -f1,2 | sort -u |
    while IFS=: read -r name unit; do
      [ "$name" = default ] || grep -qxF -e "$name" <<< "$words" || echo "$name"
      grep -qxF -e "$unit" <<< "$words" || echo "$name:$unit"
    done | xargs
}

# Try whether slurmctld starts on the wanted files: alone and with an empty state, until it has read them. It makes no socket for
# scontrol (disable_sack), because that would replace the socket of the running slurmctld. Return 1 if it ends, and 2 if nothing
# is known about the files: slurmctld had not read them after half a minute, or another process has its port.
try_topology() {
  local conf folder pid result=1
  folder=$(mktemp -d) conf=$folder/slurm.conf
  cp /etc/slurm/* "$folder/" 2> /dev/null || true
  rm -f "$folder"/topology.{conf,yaml}
  cp "$wanted"/* "$folder/" 2> /dev/null || true
  mkdir "$folder/state"
  sed -i -E '/^(Slurmctld(Host|Port|PidFile|LogFile|Debug|PrimaryOnProg|PrimaryOffProg)|StateSaveLocation|FirstJobId)=/Id
    /^AuthInfo=/I s/$/,disable_sack/
    /^(PriorityWeightTRES|Accounting[A-Za-z]*|JobComp[A-Za-z]*)=/Id
    /^PartitionName=/I s/ (TRESBillingWeights|QOS|AllowQos|DenyQos)=[^ ]*//Ig' "$conf"
  printf '%s\n' "SlurmctldHost=$(hostname)(localhost)" "SlurmctldPort=6899" "StateSaveLocation=$folder/state" \
    "SlurmctldPidFile=$folder/pid" "SlurmctldDebug=info" >> "$conf"
  /usr/sbin/slurmctld -D -i -f "$conf" > "$folder/log" 2>&1 &
  pid=$!
  for _ in {1..300}; do
    if grep -q 'Running as primary controller' "$folder/log"; then result=0 && break; fi
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.1
  done
  if [ "$result" = 1 ] && { kill -0 "$pid" 2> /dev/null || grep -q 'Address already in use' "$folder/log"; }; then result=2; fi
  kill -KILL "$pid" 2> /dev/null || true
  wait "$pid" 2> /dev/null || true
  [ "$result" = 0 ] || [ "$result$told" = 2untried ] || grep -E 'error:|fatal:' "$folder/log" | sed -E 's/^.*(error|fatal): /start-slurmctld:   /' || true
  rm -rf "$folder"
  return "$result"
}

load_wanted_topology() {
  rm -rf "$kept.new" "$kept.before"
  cp -r "$wanted" "$kept.new"
  mv "$kept" "$kept.before" && mv "$kept.new" "$kept"
  : > "$kept.loading"
  rm -f /etc/slurm/topology.{conf,yaml}
  cp "$kept"/* /etc/slurm/ 2> /dev/null || true
  chmod 0644 /etc/slurm/*.conf
  tell_nodes
  requeue_forgotten & # it first waits a minute
  sleep "${1:-2}" # slurmctld executes itself again; if it cannot read the files, it has ended by then
  wait_until_up
  rm -f "$kept.loading"
  echo "start-slurmctld: topology loaded:" "$kept"/*
}

# Load new topology files when they are wanted, for as long as slurmctld runs. With two slurmctld, the one that has control loads
# them, and the other one copies them from $kept.
keep_topology() {
  local each=${1:-5} told='' lacks sum tried
  gather_topology
  [ -d /topology ] || compgen -G "$wanted/*" > /dev/null || compgen -G "$kept/*" > /dev/null || return 0
  while sleep "$each"; do
    if [ ! -d "$kept" ]; then
      is_up || continue
      rm -rf "$kept.new" && mkdir "$kept.new"
      cp /etc/slurm/topology.{conf,yaml} "$kept.new/" 2> /dev/null || true
      mv "$kept.new" "$kept"
    fi
    gather_topology
    if diff -rq "$wanted" "$kept" > /dev/null; then
      told=''
      continue
    fi
    if [ ${#hosts[@]} = 2 ] && ! has_control; then
      cp "$kept"/* /etc/slurm/ 2> /dev/null || true
      continue
    fi
    sum=$(cat "$wanted"/* 2> /dev/null | sha256sum)
    [ "$sum" != "$(cat "$kept.refused" 2> /dev/null)" ] || continue
    lacks=$(lacking_units) || continue
    if [ -n "$lacks" ]; then
      [ "$told" = "$lacks" ] || echo "start-slurmctld: the new topology is not loaded yet, because it lacks units that records of nodes name: $lacks"
      told=$lacks
      continue
    fi
    tried=0
    try_topology || tried=$?
    if [ "$tried" = 2 ]; then
      [ "$told" = untried ] ||
        echo "start-slurmctld: the new topology is not loaded yet, because it could not be tried: it is tried again"
      told=untried
      sleep $((12 * each)) # a trial takes a core for up to half a minute
      continue
    fi
    if [ "$tried" != 0 ]; then
      echo "start-slurmctld: the new topology is not loaded, because slurmctld would not start with it: the present topology stays"
      echo "$sum" > "$kept.refused"
      continue
    fi
    load_wanted_topology
    told=''
  done
}
