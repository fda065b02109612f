#!/bin/bash
# Read by start-slurmctld, whose functions and variables it uses. A job for more nodes than Slurm knows of is refused, or for what
# none of them offers. So Slurm has records (FUTURE) of nodes that there could be. The syncer says which: each line of the file has a
# number, the beginning of names, and what such a node offers.
# A job that waits and finds no node that it could have, even for a moment, is held until a node comes (BadConstraints). So what is
# lacking is made first, and what no line names goes then. After a restart of slurmctld a record has lost the types of its GPUs:
# it is none that a line names.
# shellcheck disable=SC2154 # hosts is start-slurmctld's
potential=/potential/records

# Name and GRES of each.
list_potential() {
  timeout 60 scontrol -o show nodes --future |
    sed -nE 's/^NodeName=([^ ]+_potential_[^ ]+) .* Gres=([^ ]+) .* State=FUTURE.*/\1 \2/p'
}

# The first so many names that are free, as many at a time as slurmctld can hear.
make_potential() {
  local lacking=$1 prefix=$2 offer=$3 there=$4 names
  comm -23 <(seq -f "${prefix}_%.0f" "$((lacking + $(wc -l <<< "$there")))" | sort) <(cut -d' ' -f1 <<< "$there" | sort) |
    sort -V | head -n "$lacking" | xargs -rn 500 | while read -r names; do
      # shellcheck disable=SC2086 # words of slurm.conf
      timeout 60 scontrol create "nodename=${names// /,}" $offer state=FUTURE 2>&1 || return 1
    done
}

# As the text says; false, with Slurm's words, if that could not be done. Where Slurm makes none, for it has no room or does not like
# the offer, what no line names goes all the same: it takes the room of nodes that come. Then it is tried once more.
settle_potential() {
  local there kept=$'\n' count prefix offer gres good names says failed='' gone
  there=$(list_potential) || return 1
  while read -r count prefix offer; do
    gres=$(grep -oE ' Gres=[^ ]+' <<< "$offer" | cut -d= -f2) || gres='(null)'
    good=$(awk -v prefix="${prefix}_" -v gres="$gres" 'index($1, prefix) == 1 && $2 == gres {print $1}' <<< "$there" |
      sort -V | head -n "$count")
    kept+=$good$'\n'
    good=$(grep -c . <<< "$good") || true
    [ "$good" -ge "$count" ] || says=$(make_potential $((count - good)) "$prefix" "$offer" "$there") || failed+="$says "
  done < <(grep . <<< "$1")
  gone=$(cut -d' ' -f1 <<< "$there" | { grep -vxF -f <(grep . <<< "$kept" || echo -) || true; } | grep .) || gone=''
  xargs -rn 500 <<< "$gone" | while read -r names; do
    timeout 60 scontrol delete "nodename=${names// /,}" 2>&1 || return 1
  done || return 1
  [ -n "$failed" ] || return 0
  [ -z "$gone" ] || { settle_potential "$1"; return; }
  echo "$failed"
  return 1
}

# For as long as slurmctld runs; of two, the one that has control.
keep_potential() {
  local each=${1:-5} again=${2:-60} wanted settled=none told='' at=0 says
  while sleep "$each"; do
    wanted=$(cat "$potential" 2> /dev/null) || continue
    [ "$wanted" != "$settled" ] || { [ -n "$wanted$told" ] && [ $((SECONDS - at)) -ge "$again" ]; } || continue
    if [ ${#hosts[@]} = 2 ] && ! has_control; then continue; fi
    is_up || continue
    at=$SECONDS settled=$wanted
    if says=$(settle_potential "$wanted"); then
      told=''
    elif says=${says:-scontrol did not answer} && [ "$says" != "$told" ]; then
      echo "start-slurmctld: records of nodes that there could be are not as wanted, tried again: $says"
      told=$says
    fi
  done
}
