#!/bin/sh
# Who one is and in which language, for login shells that were told neither: by kubectl exec, and in jobs by slurmrestd. By ssh
# sshd says it, also to what is no login shell.
if sunkpy_entry=$(getent passwd "$(id -u)"); then
  IFS=: read -r sunkpy_name _ _ _ _ sunkpy_home sunkpy_shell <<EOF
$sunkpy_entry
EOF
  export USER="${USER:-$sunkpy_name}" LOGNAME="${LOGNAME:-$sunkpy_name}" SHELL="${SHELL:-$sunkpy_shell}"
  [ "${HOME:-/}" != / ] || export HOME="$sunkpy_home" # of whom the image alone does not know
fi
export LANG="${LANG:-C.UTF-8}"
# What the kubelet gives to each container is no business of people and their jobs.
# shellcheck disable=SC2046
unset $(env | sed -n 's/^\(KUBERNETES_[A-Z0-9_]*\)=.*/\1/p')
unset sunkpy_entry sunkpy_name sunkpy_home sunkpy_shell
