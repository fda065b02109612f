# source: ARCHER2, docs.archer2.ac.uk/user-guide/scheduler (scancel; estimated start time)
# does: ask when a waiting job may start (`squeue --jobs --Format=StartTime`), and cancel all of one's waiting jobs and no running one (`scancel --state=PENDING --user=$USER`)
# says: START_TIME *
# says: \d+-\d+-\d+T\d+:\d+:\d+ *
# says: RUNNING
running=$(sbatch --parsable --time=10 --output=/dev/null --wrap='sleep infinity')
until squeue --noheader --jobs=$running --Format=State | grep -q RUNNING; do sleep 0.2; done
waiting=$(sbatch --parsable --time=1 --begin=now+1hour --output=/dev/null --wrap=true)
until squeue --noheader --jobs=$waiting --Format=StartTime | grep -q T; do sleep 0.5; done
squeue --jobs=$waiting --Format=StartTime
scancel --state=PENDING --user=$USER
squeue --noheader --user=$USER --Format=State
