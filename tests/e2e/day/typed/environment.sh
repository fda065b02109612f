# source: NERSC, docs.nersc.gov/jobs/best-practices
# does: choose with `--export=ALL`, `NONE` or `NAME=value` which variables of the shell a job gets
# says: all: mine
# says: none:
# says: one: theirs
export OWN=mine
sbatch --wait --output=all --wrap='echo all: $OWN' > /dev/null
sbatch --wait --export=NONE --output=nothing --wrap='echo none: $OWN' > /dev/null
sbatch --wait --export=OWN=theirs --output=one --wrap='echo one: $OWN' > /dev/null
cat all nothing one
