# source: CSC, docs.csc.fi/computing/running
# does: submit one command with `sbatch --wrap`, and read what it printed
# says: Submitted batch job \d+
# says: on compute-\d+-\d+
sbatch --wait --time=1 --output=said --wrap='echo on $(hostname)'
cat said
