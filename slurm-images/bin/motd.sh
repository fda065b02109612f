#!/bin/sh
# What a person sees who logs in at a terminal: the site's words, what is free, and their own jobs. Slurm may be away: then
# nobody waits for it.
sunkpy_motd() {
  [ ! -r /etc/sunkpy/motd ] || cat /etc/sunkpy/motd
  timeout 2 sinfo --format='%12P %5a %.12l %.15F' 2> /dev/null || {
    echo 'Slurm does not answer; your jobs go on.'
    return
  }
  timeout 2 squeue --me --noheader --format=%T 2> /dev/null | sort | uniq -c |
    awk '{ line = line (NR > 1 ? ", " : "Your jobs: ") $1 " " tolower($2) } END { if (NR) print line }'
}
case $- in *i*) [ ! -t 1 ] || [ -e "$HOME/.hushlogin" ] || sunkpy_motd ;; esac
unset -f sunkpy_motd
