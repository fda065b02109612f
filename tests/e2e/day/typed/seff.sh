# source: CSC, docs.csc.fi/computing/running/performance-checklist
# does: look with `seff` how much of its resources an ended job used
# says: State: COMPLETED \(exit code 0\)
# says: (?s:.*)CPU Efficiency: .*(?s:.*)Memory Efficiency: .*
job=$(sbatch --parsable --wait --output=/dev/null --mem=100 --wrap='sleep 1')
until seff $job 2> /dev/null | grep -q COMPLETED; do sleep 0.5; done
seff $job | grep State
seff $job | tail -n 4
