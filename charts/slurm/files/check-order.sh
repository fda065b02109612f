# Checks the order of Slurm's releases: slurmctld must not be later than slurmdbd, and no part later than slurmctld. Each
# container of the pod writes its release into a file in /order. $1: the key of `images` of this container; $2: the key of the
# image that must not be older, if any; then the command to run next. The release comes from the package, Debian's or that of an
# own build (pack-slurm), because Slurm's programs print it only with a configuration. An image with neither is not checked.
own=$(dpkg-query -W -f '${Version}' slurm-client slurm-from-source 2> /dev/null || true)
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
