# source: GRNET ARIS, doc.aris.grnet.gr/run
# does: look at jobs with `squeue --me`, `squeue --start`, `scontrol show job` and `sacct -X --format`, and cancel one's own with `scancel -u`
# says: PENDING for-later BeginTime
# says: \d+-\d+-\d+T\d+:\d+:\d+
# says: JobName=for-later
# says: 0 left
# says: for-later\|CANCELLED by 2001\|0:0\|
job=$(sbatch --parsable --begin=now+1hour --job-name=for-later --time=10 --wrap=hostname)
sleep 1
squeue --me --noheader --format='%T %j %r'
squeue --start --me --noheader --format=%S
scontrol show job $job | grep -o 'JobName=for-later'
scancel -u $USER
echo $(squeue --me --noheader | wc -l) left
until sacct -X -n -P -j $job --format=State | grep -q CANCELLED; do sleep 0.5; done
sacct -X --noheader --parsable -j $job --format=JobName,State,ExitCode
