# source: CSC, docs.csc.fi/computing/running/creating-job-scripts
# does: `--mail-type` and `--mail-user` are taken, without a mail program at the site
# says: sbatch: no mail is sent here, so --mail-type does nothing
# says: ran
sbatch --wait --mail-type=END,FAIL --mail-user=ann@example.com --output=said --wrap='echo ran' > /dev/null
cat said
