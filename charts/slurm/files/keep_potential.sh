#!/bin/bash
# start-slurmctld reads this file; it uses the functions and variables of start-slurmctld. Slurm refuses a job for more nodes than
# it knows, or for resources that no known node offers. So keep_potential makes records of possible nodes in state FUTURE. The
# syncer says which: each line of $potential has a number of records, the beginning of their names, and what such a node offers.
# If a waiting job has no possible node, even for a moment, Slurm holds it until a node comes (BadConstraints). So missing records
# are made first, and records that no line names are deleted after that. After a restart of slurmctld a record has lost the types
# of its GPUs, so it no longer matches a line.
# shellcheck disable=SC2154 # hosts is start-slurmctld's
potential=/potential/records

# Print name and GRES of each record of a possible node.
list_potential() {
  timeout 60 scontrol -o show nodes --future |
    sed -nE 's/^NodeName=([^ ]+_potential_[^ ]+) .* Gres=([^ ]+) .* State=FUTURE.*/\1 \2/p'
}

# Make $1 records under the first free names with prefix $2, each with offer $3, 500 in one call. $4 has the existing records.
make_potential() {
  local lacking=$1 prefix=$2 offer=$3 there=$4 names
  comm -23 <(seq -f "${prefix}_%.0f" "$((lacking + $(wc -l <<< "$there")))" | sort) <(cut -d' ' -f1 <<< "$there" | sort) |
    sort -V | head -n "$lacking" | xargs -rn 500 | while read -r names; do
      # shellcheck disable=SC2086 # words of slurm.conf
      timeout 60 scontrol create "nodename=${names// /,}" $offer state=FUTURE 2>&1 || return 1
    done
}

# Make and delete records until they match the text $1. If that fails, print Slurm's words and return false. If Slurm makes no new
# records, because its table is full or it refuses the offer, the old ones are deleted all the same, because real nodes need their
# places in the table. Then it tries once more.
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

# Keep the records as the file says, for as long as slurmctld runs. With two slurmctld, only the one that has control does this.
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
      echo "start-slurmctld: records of possible nodes cannot be made or deleted; trying again: $says"
      told=$says
    fi
  done
}
