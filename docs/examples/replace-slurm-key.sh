#!/bin/bash
# Makes the Secrets <new>-1, <new>-2 and <new>-3, with which you replace slurm.key in three steps: docs/tasks/keys.md
#   replace-slurm-key.sh <namespace> <Secret with slurm.key> <new>
set -euo pipefail
old=$(kubectl -n "$1" get secret "$2" -o jsonpath='{.data.slurm\.key}')
new=$(head -c 1024 /dev/urandom | base64 -w 0)
: "${old:?"Secret $2 has no slurm.key"}"

# Slurm accepts all keys of slurm.jwks and signs with the first one. It also checks tokens of daemons that have slurm.key by the first one.
key() { printf '{"alg":"HS256","kty":"oct","kid":"%s","k":"%s"}' "$1" "${!1}"; }
make() { kubectl -n "$1" create secret generic "$2" --from-file="$3=/dev/stdin"; }
echo "{\"keys\":[$(key old),$(key new)]}" | make "$1" "$3-1" slurm.jwks
echo "{\"keys\":[$(key new),$(key old)]}" | make "$1" "$3-2" slurm.jwks
base64 -d <<< "$new" | make "$1" "$3-3" slurm.key
