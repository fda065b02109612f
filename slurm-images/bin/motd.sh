#!/bin/sh
# The greeting at a terminal: the site's text, free nodes, and the person's own jobs. If Slurm is away or slow, it waits at
# most two seconds.
sunkpy_motd() {
  [ ! -r /etc/sunkpy/words/motd ] || cat /etc/sunkpy/words/motd
  timeout 2 show-load 2> /dev/null || echo 'Slurm does not answer now; jobs go on.'
}
case $- in *i*) [ ! -t 1 ] || [ -e "$HOME/.hushlogin" ] || sunkpy_motd ;; esac
unset -f sunkpy_motd
