"""What people do with Slurm, by its man pages, and what becomes of it here: a table.

The daemons have the slurm.conf, the hooks, the people and the accounts that the chart makes of values (`site.VALUES`).
What that forbids is refused, and the table has the words. All commands run at once, as on a cluster; each has jobs of
its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

import pytest

from devcluster.waiting import wait_until
from tests.integration.slurm.site import GPU_SHARES, Site
from tests.roots import RELEASE

pytestmark = pytest.mark.integration

AT_ONCE = 10
DENIED = "(denied|Invalid user id)"

PRELUDE: Final = r"""
cd "$(mktemp --directory "$HOME/XXXXXX")" || exit
submit() { sbatch --parsable --output=%j.out "$@"; }
field() { scontrol --oneliner show job "$1" | grep --only-matching "\b$2=[^ ]*" | cut --delimiter== --fields=2-; }
until_is() { # job field pattern
  for _ in {1..200}; do [[ $(field "$1" "$2") =~ ^($3)$ ]] && return; sleep 0.2; done
  echo "job $1 never has $2=$3: $(scontrol --oneliner show job "$1")"; return 1
}
until_runs() { until_is "$1" JobState RUNNING; }
until_done() { until_is "$1" JobState COMPLETED; }
"""
"""`submit` prints the number of a job, `field` something of it; the others wait for it."""


class Command(NamedTuple):
    """What somebody types, whether it succeeds, and what it says: a regular expression over all of it."""

    script: str
    says: str
    code: int = 0
    user: str = "ann"


COMMANDS: Final[Mapping[str, Command]] = {
    # ---------------------------------------------------------------------------------------------- sbatch
    "sbatch --wrap, --wait: the exit code is the job's": Command(
        "sbatch --wait --output=o --wrap='echo by $SLURM_JOB_ACCOUNT in $PWD; exit 3'; echo code $?; cat o",
        r"code 3\nby chem in /home/ann/",
    ),
    "sbatch: options in the script": Command(
        r"printf '#!/bin/bash\n#SBATCH --job-name=lines\n#SBATCH --time=5\n' > s; j=$(submit --hold s); "
        "echo $(field $j JobName) $(field $j TimeLimit); scancel $j",
        r"^lines 00:05:00$",
    ),
    "sbatch --export-file": Command(  # docs/surprises.md
        r"printf 'A=1\0B=two words\0' > f; sbatch --wait --export-file=f --output=o --wrap='echo A=$A B=$B'; cat o",
        r"A=1 B=two words$" if RELEASE != "26.05" else r"A= B=$",
    ),
    "sbatch: what is no script": Command("echo date > s; sbatch s", "This does not look like a batch script", 1),
    "sbatch --test-only": Command(
        "sbatch --test-only --wrap=true", r"Job \d+ to start at .* using 1 processors on nodes c"
    ),
    "sbatch --output patterns, --error, --chdir": Command(
        "mkdir d; sbatch --wait --job-name=n --chdir=d --output=%x-%u.out --error=%x.err --wrap='pwd; ls nope';"
        "cat d/n-ann.out d/n.err",
        r"/home/ann/\w+/d\n.*cannot access 'nope'",
    ),
    "sbatch --export": Command(
        "A=1 B=2 sbatch --wait --export=A,C=3 --output=o --wrap='echo $A,$B,$C' > /dev/null; cat o", r"^1,,3$"
    ),
    "sbatch --mail-type: nobody is written to, and people are told": Command(
        "j=$(submit --mail-type=ALL --mail-user=ann@example.com --wrap=true); until_done $j",
        r"^sbatch: no mail is sent here, so --mail-type does nothing$",
    ),
    "sbatch --array": Command(
        "sbatch --wait --array=1-5:2%2 --output=%a.out --wrap='echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT'"
        "> /dev/null; cat *.out",
        r"^1 of 3\n3 of 3\n5 of 3$",
    ),
    "scancel of a task of an array": Command(
        "j=$(submit --hold --array=1-3 --wrap=true); scancel ${j}_2; squeue -h -r -j $j -o %K | sort; scancel $j",
        r"^1\n3$",
    ),
    "sbatch --begin": Command(
        "j=$(submit --begin=now+1hour --wrap=true); until_is $j Reason BeginTime; scontrol update job=$j starttime=now;"
        "until_done $j",
        r"^$",
    ),
    "sbatch --nice: only upwards": Command(
        "j=$(submit --hold --nice=5 --wrap=true); field $j Nice; scancel $j; sbatch --nice=-5 --wrap=true",
        r"^5\n.*nice",
        1,
    ),
    "sbatch --uid": Command("sbatch --uid=bob --wrap=true", "only permitted by root", 255),
    "sbatch --comment of pods": Command(
        "sbatch --comment=k8s:chem/web:u --wrap=true", "says that a job stands for Kubernetes pods; write another", 1
    ),
    # ---------------------------------------------------------------------------------------------- dependencies
    "--dependency=afterok": Command(
        "a=$(submit --output=o --open-mode=append --wrap='sleep 1; echo first'); "
        "sbatch --wait --dependency=afterok:$a --output=o --open-mode=append --wrap='echo second' > /dev/null; cat o",
        r"^first\nsecond$",
    ),
    "--dependency=afterok of what fails": Command(
        "a=$(submit --wrap=false); b=$(submit --dependency=afterok:$a --wrap=true); "
        "until_is $b Reason DependencyNeverSatisfied; scancel $b",
        r"^$",
    ),
    "--dependency=afternotok": Command(
        "a=$(submit --wrap=false); b=$(submit --dependency=afternotok:$a --wrap=true); until_done $b",
        r"^$",
    ),
    "--kill-on-invalid-dep": Command(
        "a=$(submit --wrap=false); b=$(submit --dependency=afterok:$a --kill-on-invalid-dep=yes --wrap=true); "
        "until_is $b JobState CANCELLED",
        r"^$",
    ),
    "--dependency=singleton": Command(
        "a=$(submit --job-name=alone --wrap='sleep 30'); "
        "b=$(submit --job-name=alone --dependency=singleton --wrap=true);"
        "until_is $b Reason Dependency; scancel $a; until_done $b",
        r"^$",
    ),
    "--dependency of nonsense": Command("sbatch --dependency=whenever:1 --wrap=true", "Job dependency problem", 1),
    # ---------------------------------------------------------------------------------------------- the queue
    "scontrol hold and release": Command(
        "j=$(submit --begin=now+1hour --wrap=true); scontrol hold $j; until_is $j Reason JobHeldUser; "
        "scontrol release $j; scontrol update job=$j starttime=now; until_done $j",
        r"^$",
    ),
    "scontrol update of the nodes of a job that runs": Command(
        "j=$(submit -N2 --mem=10 --wrap='sleep 60'); until_runs $j; scontrol update job=$j numnodes=1; "
        "scontrol update job=$j nodelist=c1; echo $(field $j NumNodes); scontrol update job=$j timelimit=9; scancel $j",
        r"^((scontrol: error: )?the nodes of a running job cannot be changed here: Slurm would send its later steps to "
        r"wrong nodes\n"
        r".*denied.*\n){2}2$",
    ),
    "scontrol update of the nodes of a job that waits": Command(
        "j=$(submit -N2 --hold --wrap=true); scontrol update job=$j numnodes=1; field $j NumNodes; scancel $j",
        r"^1(-1)?$",
    ),
    "scontrol requeue": Command(
        "j=$(submit --wrap='[ -e again ] || { touch again; sleep 60; }'); until [ -e again ]; do sleep 0.1; done; "
        "scontrol requeue $j; until_is $j Reason BeginTime; field $j Restarts; sleep 2; "
        "scontrol update job=$j starttime=now; "
        "until_done $j",
        r"^1$",
    ),
    "scontrol requeue of --no-requeue": Command(
        "j=$(submit --no-requeue --wrap='sleep 60'); until_runs $j; scontrol requeue $j; c=$?; scancel $j;exit $c",
        "Requested operation is presently disabled",
        1,
    ),
    "scontrol requeuehold": Command(
        "j=$(submit --wrap='sleep 60'); until_runs $j; scontrol requeuehold $j; "
        "until_is $j Reason 'JobHeldUser|job_requeued_in_held_state'; scancel $j",
        r"^$",
    ),
    "scontrol update of a time limit: only down": Command(
        "j=$(submit --time=20 --wrap='sleep 60'); until_runs $j; scontrol update job=$j timelimit=15; "
        "field $j TimeLimit; scontrol update job=$j timelimit=25; c=$?; scancel $j; exit $c",
        r"^00:15:00\nAccess/permission denied",
        1,
    ),
    "a partition's time limits": Command(
        "j=$(submit --hold --wrap=true); field $j TimeLimit; k=$(submit --time=2-0 --wrap=true); "
        "until_is $k Reason PartitionTimeLimit; scancel $j $k",
        r"^00:10:00$",
    ),
    "scontrol update of another's job": Command(
        "j=$(squeue -h -n bobs -o %i); scontrol update job=$j name=mine; scontrol hold $j; scancel $j || exit 1",
        f"{DENIED}.*{DENIED}.*{DENIED}",
        1,
    ),
    "scontrol top: an operator's": Command(
        "j=$(submit --hold --wrap=true); scontrol top $j; c=$?; scancel $j; exit $c", DENIED, 1
    ),
    "scancel --name": Command(
        "a=$(submit --hold --job-name=gone --wrap=true); b=$(submit --hold --job-name=stays --wrap=true); "
        "scancel --me --name=gone; field $a JobState; field $b JobState; scancel $b",
        r"^CANCELLED\nPENDING$",
    ),
    "scancel --state": Command(
        "a=$(submit --job-name=two --wrap='sleep 60'); b=$(submit --hold --job-name=two --wrap=true); "
        "until_runs $a; scancel --name=two --state=PENDING; field $a JobState; field $b JobState; scancel $a",
        r"^RUNNING\nCANCELLED$",
    ),
    "scancel --signal --batch": Command(
        "j=$(submit --wrap='trap \"echo caught; exit 0\" USR1; touch set; sleep 60 & wait'); "
        "until [ -e set ]; do sleep 0.1; done; scancel --signal=USR1 --batch $j; until_done $j; cat $j.out",
        r"^caught$",
    ),
    "squeue --format, --Format, --json": Command(
        "j=$(submit --hold --job-name=n --wrap=true); squeue -h -j $j -o '%j|%T|%u|%a|%P|%r'; "
        'squeue -h -j $j -O Name:4,NumCPUs:4,Reason:12; squeue -j $j --json | grep -o \'"name": *"n"\'; scancel $j',
        r'^n\|PENDING\|ann\|chem\|low\|JobHeldUser\nn   1   JobHeldUser *\n"name": ?"n"$',
    ),
    "squeue --start, --me, --steps": Command(
        "j=$(submit --begin=now+1hour --wrap=true); squeue -h --start -j $j -o '%j %T'; "
        "squeue -h --me -o %i | grep -cx $j; squeue -h --steps -j $j; scancel $j",
        r"^wrap PENDING\n1$",
    ),
    "sprio": Command(
        "j=$(submit --nodelist=c3 --qos=urgent --wrap=true); "
        "until sprio -h -j $j -o '%u %q %Q' | grep ann; do sleep 0.1; done; sprio -w -h -o '%A %F %Q'; scancel $j",
        r"ann +\S+ +1000000\n *1000 +10000 +1000000",
    ),
    # ---------------------------------------------------------------------------------------------- srun, salloc
    "srun: tasks and labels": Command("srun -n3 -l bash -c 'echo $SLURM_NTASKS' | sort", r"0: 3\n1: 3\n2: 3$"),
    "srun over several nodes": Command(
        "srun -N2 --ntasks-per-node=1 bash -c 'echo $SLURMD_NODENAME' | sort -u | wc -l", r"^2$|\n2$"
    ),
    "srun --multi-prog": Command(
        r"printf '0 echo zero\n1-2 echo rest %%t\n' > m; srun -n3 --multi-prog m | sort", r"rest 1\nrest 2\nzero$"
    ),
    "limits of the shell that submits stay there": Command(
        "ulimit -d 4194304 -u 2000; show='echo $(ulimit -d) $(ulimit -u)'; srun --quiet bash -c \"$show\"; "
        'printf "#!/bin/bash\\n$show\\n" > s; sbatch --wait --output=o s > /dev/null; cat o',
        r"^unlimited (?!2000\b)\S+\nunlimited (?!2000\b)\S+$",
    ),
    "limits of slurmd's unit, as far as the machine allows": Command(
        "srun --quiet bash -c 'ulimit -Ss; for f in s l n; do [ $(ulimit -S$f) = $(ulimit -H$f) ] && echo $f; done'",
        r"^unlimited\ns\nl\nn$",
    ),
    "/dev/shm: half of the memory": Command(
        "srun --quiet bash -c 'read -r _ all _ < /proc/meminfo; "
        "size=$(df --output=size --block-size=1M /dev/shm | tail -n 1); "
        "echo $((size - all / 2048)); stat --format=%a /dev/shm'",
        r"^[01]\n1777$",
    ),
    "srun --propagate": Command("ulimit -d 4194304; srun --quiet --propagate=DATA bash -c 'ulimit -d'", r"^4194304$"),
    "srun: exit code": Command("srun bash -c 'exit 7'", r"Exited with exit code 7", 7),
    "srun --immediate": Command("srun --immediate=1 --nodelist=c3 true", r"Unable to allocate resources", 1),
    "srun --mpi=list": Command("srun --mpi=list", r"none"),
    "salloc: steps, each recorded": Command(
        "salloc -n2 bash -c 'srun -n1 --job-name=one true; srun -n2 --job-name=both true; echo $SLURM_JOB_ID > j'; "
        "j=$(<j); for _ in {1..100}; do sacct -nPj $j -o jobname,state | grep -q both.*ED && break; sleep 0.1; done; "
        "sacct -nPj $j -o jobname,ntasks,state | tail -n +2",
        r"one\|1\|COMPLETED\nboth\|2\|COMPLETED$",
    ),
    "salloc: steps side by side": Command(
        "salloc -n2 bash -c 'srun -n1 --exact sleep 30 & srun -n1 --exact echo beside; kill %1; wait'", r"beside"
    ),
    "salloc --no-shell": Command(
        "salloc --no-shell 2>&1 | sed -n 's/.*Granted job allocation //p' > j; field $(<j) JobState; "
        "srun --jobid=$(<j) echo inside; scancel $(<j)",
        r"RUNNING\n(srun.*\n)*inside",
    ),
    "sbcast: a file on each node": Command(
        "echo carried > f; salloc -N2 bash -c 'sbcast f /tmp/f-$SLURM_JOB_ID && srun -N2 cat /tmp/f-$SLURM_JOB_ID'",
        r"carried\ncarried",
    ),
    "sattach": Command(
        "j=$(submit --wrap='srun bash -c \"touch on; while :; do echo seen; sleep 0.5; done\"'); "
        "until [ -e on ]; do sleep 0.1; done; "
        "sattach $j.0 > attached & until grep -s seen attached; do sleep 0.1; done; scancel $j; wait",
        r"seen",
    ),
    "sstat": Command(
        "j=$(submit --wrap='srun sleep 200'); "
        "until sstat -nP -j $j.0 -o jobid,ntasks 2> /dev/null | grep '[|]1$'; do sleep 0.2; done; scancel $j",
        r"^\d+\.0\|1$",
    ),
    "hetjob: srun": Command(
        "srun -n1 bash -c 'echo $SLURMD_NODENAME' : -p gpu --gpus=1 bash -c 'echo $SLURMD_NODENAME' | sort", r"c\d\ng1$"
    ),
    "hetjob: sbatch": Command(
        r"printf '#!/bin/bash\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\n"
        'srun --het-group=0,1 bash -c "echo \\$SLURM_PROCID" | sort\n\' > s; sbatch --wait --output=o s; cat o',
        r"0\n1\n2$",
    ),
    # ---------------------------------------------------------------------------------------------- resources
    "--exclusive: a node of its own": Command(
        "j=$(submit --exclusive --wrap='sleep 60'); until_runs $j; field $j NumCPUs; scancel $j", r"^16$"
    ),
    "--mem": Command(
        "j=$(submit --hold --mem=2G --cpus-per-task=2 --wrap=true); field $j ReqTRES; scancel $j; "
        "sbatch --mem=1T --wrap=true",
        r"^cpu=2,mem=2G,.*(Memory specification can not be satisfied|Requested node configuration is not available)",
        1,
    ),
    # Slurm 24.11 refuses what no node has, 26.05 lets it wait for a node that has it.
    "--gpus": Command(
        "srun -p gpu --gres=gpu:h100:2 bash -c 'echo $CUDA_VISIBLE_DEVICES'; "
        "timeout 10 srun -p gpu --gpus=3 true || exit 1",
        r"0,1\n.*Requested (node|partition) configuration (is )?not available",
        1,
    ),
    "--gpus: its share of the node's memory and cpus": Command(
        "j=$(submit -p gpu --gpus=1 --wrap=true); until_done $j; field $j AllocTRES; "
        "k=$(submit -p low,gpu --gres=gpu:2 --hold --wrap=true); field $k MemPerTres; field $k CpusPerTres; scancel $k",
        r"^cpu=8,mem=16000M,.*gres/gpu=1\ngres/gpu:16000\ngres/gpu:8$",
    ),
    "--gpus from a job with less memory: steps have the share, too": Command(
        "for name in SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU; do "
        "j=$(export $name=16; submit -p gpu --gpus=1 --wrap='srun scontrol show step $SLURM_JOB_ID.0'); "
        "until_done $j; grep --only-matching 'mem=[^,]*' $j.out; done",
        r"^mem=16000M\nmem=16000M$",
    ),
    "--gpus with memory, cpus or tasks: as asked": Command(
        "for with in '--mem=3G' '-c 2' '-n 4' '--mem-per-gpu=3G --cpus-per-gpu=1' '--mem=0 -n 1'; do "
        "j=$(submit -p gpu --gpus=1 --hold $with --wrap=true); echo $(field $j MemPerTres) $(field $j CpusPerTres); "
        "scancel $j; done",
        r"^gres/gpu:8\ngres/gpu:16000\ngres/gpu:16000\ngres/gpu:3072 gres/gpu:1$",  # and nothing for the last
    ),
    "without GPUs: memory per cpu": Command(
        "j=$(submit -p gpu -n 2 --hold --wrap=true); field $j MinMemoryCPU; field $j MemPerTres; scancel $j", r"^1G$"
    ),
    "--constraint": Command(
        "srun -p gpu -C h100 bash -c 'echo $SLURMD_NODENAME'; sbatch -C a100 --wrap=true", r"g1\n.*Invalid feature", 1
    ),
    "--licenses": Command(
        "a=$(submit -L matlab:2 --wrap='sleep 60'); until_runs $a; b=$(submit -L matlab:1 --wrap=true); "
        "until_is $b Reason Licenses; scontrol -o show lic matlab; scancel $a; until_done $b; "
        "sbatch -L sas --wrap=true",
        r"Total=2 Used=2 Free=0.*Invalid license",
        1,
    ),
    "--reservation": Command("srun --reservation=bobs bash -c 'echo $SLURMD_NODENAME'", r"c3", user="bob"),
    "--reservation of another": Command("srun --reservation=bobs true", "Access denied to requested reservation", 1),
    "a higher partition preempts": Command(
        "a=$(submit --exclusive -w c2 --wrap='[ -e again ] || { touch again; sleep 60; }'); "
        "until [ -e again ]; do sleep 0.1; done; srun -p high --exclusive -w c2 sleep 1; field $a Restarts; "
        "scontrol update job=$a starttime=now; until_done $a",
        r"\n1$",
    ),
    # ---------------------------------------------------------------------------------------------- who may what
    "--qos of limits": Command(
        "a=$(submit --qos=small --wrap='sleep 60'); until_runs $a; b=$(submit --qos=small --wrap=true); "
        "until_is $b Reason QOSMaxJobsPerUserLimit; scancel $a $b; sbatch --qos=strict -n2 --wrap=true",
        r"QOSMaxCpuPerUserLimit.*violates accounting/QOS policy",
        1,
    ),
    "--qos that is not allowed": Command("sbatch --qos=urgent --wrap=true", "Invalid qos specification", 1, "bob"),
    "--account of others": Command("sbatch --account=phys --wrap=true", "Invalid account or account/partition", 1),
    "no account at all": Command("sbatch --wrap=true", "Invalid account or account/partition", 1, "eve"),
    "--partition that is not there": Command("sbatch -p nope --wrap=true", "invalid partition specified: nope", 1),
    "--partition that is down": Command(
        "j=$(submit -p closed --wrap=true); until_is $j Reason PartitionDown; scancel $j", r"^$"
    ),
    "scontrol update of a node": Command("scontrol update nodename=c1 state=drain reason=x", DENIED, 1),
    "scontrol create reservation": Command(
        "scontrol create reservation user=ann starttime=now duration=1 nodes=c1", DENIED, 1
    ),
    "scontrol reconfigure, shutdown": Command("scontrol reconfigure; scontrol shutdown", f"{DENIED}.*{DENIED}", 1),
    "scontrol reboot": Command(
        "scontrol reboot ASAP c1; code=$?; scontrol -o show node c1 | grep -c REBOOT; exit $code",
        r"RebootProgram isn't defined.*\n0$",
        1,
    ),
    "sacctmgr": Command(
        "sacctmgr -nP show assoc user=ann format=account,qos; sacctmgr -i add user ann account=phys",
        r"^chem\|normal,small,strict,urgent\n.*(denied|privilege)",
        1,
    ),
    "the keys of Slurm": Command(
        "srun bash -c 'cat /etc/slurm/slurm.key /etc/slurm/jwt.key /run/slurm/conf/*.key; ls /etc/slurm'; "
        "cat /etc/slurm/*.key",
        r"Permission denied",
        1,
    ),
    "programs that make who runs them somebody else": Command(
        "srun find / -xdev -type f -perm /6000 2> /dev/null; find / -xdev -type f -perm /6000 2> /dev/null; true", r"^$"
    ),
    "processes of others on a node": Command(
        "srun --quiet -w c1 bash -c 'ps -eo user= | sort -u; ps -eo comm= | grep -c ^slurmd; true'", r"^ann\n0$"
    ),
    "a plugin of the site": Command("srun printenv OF_PLUGIN", "of-the-site$"),
    "strigger: Slurm's own user's": Command("strigger --set --node=c1 --down --program=/bin/true", "denied", 1),
    "scrontab": Command("scrontab -l", "scrontab is disabled on this cluster", 1),
    # ---------------------------------------------------------------------------------------------- what is told
    "sinfo": Command(
        "sinfo -h -p gpu,closed -o '%P|%a|%l|%D|%G' | sort", r"closed\|down\|infinite\|.*\ngpu\|up\|.*gpu:h100:2"
    ),
    "scontrol show partition, node, config": Command(
        "scontrol -o show partition low | grep -o 'MaxTime=[^ ]*'; scontrol -o show node g1 | grep -o ' Gres=[^ ]*'; "
        "scontrol show config | grep -o '[a-z]*log\\.sh$'; scontrol show hostnames c[1-3] | wc -l",
        r"^MaxTime=1-00:00:00\n Gres=gpu:h100:2\nepilog.sh\nprolog.sh\n3$",
    ),
    "sacct": Command(
        "j=$(submit --wait --comment='my words' --wrap='exit 2'); "
        "for _ in {1..100}; do sacct -nXPj $j -o state | grep -q FAILED && break; sleep 0.1; done; "
        "sacct -nXPj $j -o user,account,qos,state,exitcode,reqtres,comment",
        r"^ann\|chem\|normal\|FAILED\|2:0\|billing=1,cpu=1,mem=1G,node=1\|my words$",
    ),
    "sshare": Command("sshare -hP -u ann,bob -o account,user,rawshares", r"chem\|ann\|1\n.*phys\|bob\|1"),
    "sreport": Command(
        "sreport -P cluster accountutilizationbyuser start=now-1day", r"Cluster\|Account\|Login\|Proper Name"
    ),
    "sdiag": Command("sdiag", r"Jobs submitted:"),
}


@pytest.fixture(scope="module")
def outcomes(site: Site) -> Iterator[Mapping[str, Future[tuple[int, str]]]]:
    """What each command will have said."""
    shares = site.slurm.root / GPU_SHARES
    assert wait_until(
        lambda: shares.exists() and "gpu 8 16000" in shares.read_text().splitlines(), timeout_s=30, every_s=0.2
    )
    reserved = "reservation=bobs", "users=bob", "starttime=now", "duration=60", "nodes=c3"
    assert site.slurm.run_as("slurm", "scontrol", "create", *reserved)[0] == 0
    assert site.shell("bob", "sbatch --hold --job-name=bobs --output=/dev/null --wrap=true")[0] == 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(site.shell, each.user, PRELUDE + each.script) for name, each in COMMANDS.items()}
    assert site.slurm.run_as("slurm", "scontrol", "delete", "reservation=bobs")[0] == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_what_its_man_page_says(
    site: Site, outcomes: Mapping[str, Future[tuple[int, str]]], name: str
) -> None:
    command = COMMANDS[name]
    code, said = outcomes[name].result()
    assert re.search(command.says, said.strip(), re.DOTALL), said
    assert code == command.code, said


TYPED: Final = r"""
cd "$(mktemp --directory "$HOME/XXXXXX")" || exit
type() {
  until grep -q 'are ready for job' seen; do sleep 0.2; done
  printf '%s\n' 'echo first $(scontrol show hostnames | head -n 1)' \
    'echo on $SLURMD_NODENAME at $(tty)' 'srun -l echo a step' exit
  for _ in {1..100}; do ! grep -q Relinquishing seen || return; sleep 0.2; done
}
touch seen
type | env -u SHELL script -qefc 'salloc --nodes=2 --nodelist=c1,c2' seen
"""
"""Into the terminal of somebody who has no SHELL, as by kubectl exec."""


def test_salloc_without_a_command_opens_its_shell_on_the_first_node(site: Site) -> None:
    """In the login pod it would have the limits that login.perPerson sets there.

    Which node is the first, Slurm says: it sorts them as they came to its table.
    """
    code, said = site.shell("ann", TYPED)
    first = re.search(r"\nfirst (c[12])\r?\n", said)
    assert first, said
    assert re.search(rf"\non {first[1]} at /dev/pts/\d+\r?\n", said), said
    assert {"0: a step", "1: a step"} <= {line.strip() for line in said.splitlines()}, said
    assert (code, "Relinquishing job allocation" in said) == (0, True), said
