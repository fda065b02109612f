#!/bin/sh
# Sets USER, HOME and the language in login shells where nobody has set them: with kubectl exec, and in jobs from slurmrestd. In
# sessions by ssh, sshd sets them, also for other shells.
if sunkpy_entry=$(getent passwd "$(id -u)"); then
  IFS=: read -r sunkpy_name _ _ _ _ sunkpy_home sunkpy_shell <<EOF
$sunkpy_entry
EOF
  export USER="${USER:-$sunkpy_name}" LOGNAME="${LOGNAME:-$sunkpy_name}" SHELL="${SHELL:-$sunkpy_shell}"
  [ "${HOME:-/}" != / ] || export HOME="$sunkpy_home" # of whom the image alone does not know
fi
export LANG="${LANG:-C.UTF-8}"
# Remove the variables that the kubelet sets in each container: people and their jobs do not need them.
# shellcheck disable=SC2046
unset $(env | sed -n 's/^\(KUBERNETES_[A-Z0-9_]*\)=.*/\1/p')
unset sunkpy_entry sunkpy_name sunkpy_home sunkpy_shell
