# Shared by prolog.sh and epilog.sh: ask the scheduler until it says that its work on this node is done.
# Slurm runs them as root in the slurmd pod with an empty environment; start-slurmd left what they need in a file.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
token_file=${SUNKPY_TOKEN_FILE:-/var/run/secrets/sunkpy/token}

# Only jobs that stand for pods are ours.
case ${SLURM_JOB_COMMENT:-} in
  k8s:*) ;;
  *) exit 0 ;;
esac
# shellcheck source=/dev/null
. "${SUNKPY_HOOKS_ENV:-/etc/sunkpy/hooks.env}" || exit 0
[ -n "${SUNKPY_HOOKS_URL:-}" ] || exit 0

say() { echo "$hook of job $SLURM_JOB_ID: $*" >&2; }

# One question. Prints the HTTP status, 000 when nobody answered. The token goes through a pipe: what is on a command
# line can be read by everybody in the pod.
ask() {
  local token
  token=$(< "$token_file") || { echo 000; return; }
  curl --silent --show-error --output /dev/null --write-out '%{http_code}' \
    --connect-timeout 3 --max-time 30 \
    --location --location-trusted --post301 --post302 --post303 --max-redirs 4 --noproxy '*' \
    --request POST --header 'Content-Type: application/json' --config - \
    --data "{\"job_id\": $SLURM_JOB_ID, \"node\": \"$SLURMD_NODENAME\"}" \
    "$SUNKPY_HOOKS_URL/hooks/v1/$hook" <<< "header = \"Authorization: Bearer $token\""
}

# Ask until done, $1 seconds at most. Returns 0: done; 1: refused; 2: out of time.
ask_until_done() {
  local limit=$1 pause=0.1 status
  SECONDS=0
  while :; do
    status=$(ask)
    case $status in
      200) return 0 ;;
      202) pause=0.1 ;; # the scheduler held the question as long as it could: ask again at once
      400 | 401 | 403 | 404)
        say "the scheduler refused with HTTP $status"
        return 1
        ;;
      *)
        say "no answer (HTTP $status), next try in $pause s"
        sleep "$pause"
        case $pause in 0.1) pause=0.3 ;; 0.3) pause=1 ;; 1) pause=3 ;; esac
        ;;
    esac
    if [ "$SECONDS" -ge "$limit" ]; then
      say "not done after $limit s"
      return 2
    fi
  done
}
