#!/bin/sh
# What a person sees who logs in at a terminal: the site's words, what is free, and their own jobs. Slurm may be away, or
# slow: nobody waits for it longer than two seconds.
sunkpy_motd() {
  [ ! -r /etc/sunkpy/motd ] || cat /etc/sunkpy/motd
  timeout 2 show-load 2> /dev/null || echo 'Slurm does not answer now; jobs go on.'
}
case $- in *i*) [ ! -t 1 ] || [ -e "$HOME/.hushlogin" ] || sunkpy_motd ;; esac
unset -f sunkpy_motd
