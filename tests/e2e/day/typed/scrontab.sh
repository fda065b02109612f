# source: Slurm, slurm.schedmd.com/scrontab.html
# does: have a job start at fixed times, with `scrontab -e`
# cannot: scrontab is off unless slurm.conf has `ScronParameters: enable`
