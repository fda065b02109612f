# source: CSC, docs.csc.fi/computing/running/creating-job-scripts
# does: submit with `--mail-type` and `--mail-user`; Slurm accepts both at a site without a mail program
# says: sbatch: no mail is sent here, so --mail-type does nothing
# says: ran
sbatch --wait --mail-type=END,FAIL --mail-user=ann@example.com --output=said --wrap='echo ran' > /dev/null
cat said
