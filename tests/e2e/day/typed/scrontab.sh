# source: Slurm, slurm.schedmd.com/scrontab.html
# does: `scrontab -e`
# cannot: off unless `ScronParameters: enable` in slurm.conf
