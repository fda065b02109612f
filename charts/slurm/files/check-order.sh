# Slurm's order of releases: slurmctld is not later than slurmdbd, and nothing later than slurmctld. Containers of one pod tell each
# other in /order of what release they are. $1: which of `images` this is; $2: the one that it must not be later than, if any. Then comes what runs next.
# Slurm's programs want a configuration before they say so. An image that is not Debian's says nothing, and is let be.
own=$(dpkg-query -W -f '${Version}' slurm-client) || own=''
own=${own%%-*}
echo "$own" > "/order/$1.new"
mv "/order/$1.new" "/order/$1"
if [ -n "$2" ]; then
  for _ in {1..3000}; do [ ! -e "/order/$2" ] || break; sleep 0.1; done
  limit=$(< "/order/$2")
  if [ -n "$own" ] && [ -n "$limit" ] && [ "$(printf '%s\n' "${own%.*}" "${limit%.*}" | sort -V | tail -n 1)" != "${limit%.*}" ]; then
    echo "images.$1 is Slurm $own, but images.$2 is only $limit: images.$2 must not be older than images.$1. Upgrade images.$2 first, or both together: docs/tasks/upgrade.md"
    exit 3
  fi
fi
shift 2
[ $# = 0 ] || exec "$@"
