#!/bin/sh
# Prints the greeting at a terminal: the site's text, the nodes by state, and the person's own jobs. It waits at most two seconds
# for Slurm.
sunkpy_motd() {
  [ ! -r /etc/sunkpy/words/motd ] || cat /etc/sunkpy/words/motd
  timeout 2 show-load 2> /dev/null || echo 'Slurm does not answer now; jobs go on.'
}
case $- in *i*) [ ! -t 1 ] || [ -e "$HOME/.hushlogin" ] || sunkpy_motd ;; esac
unset -f sunkpy_motd
