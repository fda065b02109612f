"""What Open OnDemand says to Slurm, on real daemons: the calls of its adapter, and what that reads of the answers.

After lib/ood_core/job/adapters/slurm.rb of OSC/ood_core at 86656b38 (August 2026). `cluster` there is `-M` here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

import pytest

from devcluster.waiting import wait_until
from tests.integration.slurm.site import Site

pytestmark = pytest.mark.integration

UNIT, RECORD = "\x1f", "\x1e"
JOB_FIELDS: Final = (
    "Account", "JobID", "BatchHost", "MinCpus", "NumCPUs", "MinTmpDisk", "NumNodes", "EndTime", "Dependency", "Feature",
    "ArrayJobID", "GroupName", "GroupID", "OverSubscribe", "Sockets", "JobArrayID", "Cores", "Name", "Threads",
    "Comment", "ArrayTaskID", "TimeLimit", "TimeLeft", "MinMemory", "TimeUsed", "ReqNodes", "NodeList", "Command",
    "Contiguous", "QOS", "Partition", "PriorityLong", "Reason", "StartTime", "StateCompact", "State", "UserName",
    "UserID", "Reservation", "SubmitTime", "WCKey", "Licenses", "ExcNodes", "CoreSpec", "Nice", "SchedNodes", "SCT",
    "WorkDir", "tres-alloc", "tres-per-node",
)  # fmt: skip
RECORD_FIELDS: Final = (
    "User", "Group", "JobId", "JobName", "Elapsed", "ReqMem", "AllocCPUS", "ReqCPUS", "Timelimit", "State", "TotalCPU",
    "MaxRSS", "Partition", "Submit", "Start", "End", "ReqTRES",
)  # fmt: skip
SCRIPT: Final = "#!/bin/bash\necho out of $SLURM_JOB_NAME; sleep 600\n"


class Adapter:
    """What Open OnDemand calls for a cluster file. If that names a `cluster`, all calls name it, except sacctmgr's."""

    def __init__(self, site: Site, cluster: str) -> None:
        self._site, self._named = site, ["-M", cluster] if cluster else []

    def call(self, command: str, *args: str, stdin: str = "") -> str:
        """Output; a code other than 0 is an error there."""
        argv = [command, *args, *(self._named if command != "sacctmgr" else [])]
        pipe = f"printf %s {shlex.quote(stdin)} | " if stdin else ""
        code, said = self._site.shell("ann", f"cd; {pipe}{shlex.join(argv)}")
        assert code == 0, said + self._site.logs()
        return said

    def submit(self, *args: str) -> str:
        """The id of a job whose script comes by stdin."""
        options = ("-D", "/home/ann", "-J", "desk", "-o", "/home/ann/desk.out", "-t", "00:30:00", "--mem", "10")
        said = self.call("sbatch", *options, "--export", "NONE", *args, "--parsable", stdin=SCRIPT)
        return said.strip().split(";")[0]

    def jobs(self, *args: str) -> list[dict[str, str]]:
        """Each with all fields, from behind the line that ends the header."""
        form = "".join(f"{field}:{UNIT}," for field in JOB_FIELDS)
        said = self.call("squeue", "--all", "--states=all", "--noconvert", "-O", form, *args)
        lines = said.partition(f"{UNIT}\n")[2].splitlines()
        return [dict(zip(JOB_FIELDS, line.split(UNIT), strict=False)) for line in lines]


@pytest.fixture(params=["", "it"], ids=["without a name", "with cluster"])
def adapter(site: Site, request: pytest.FixtureRequest) -> Adapter:
    return Adapter(site, request.param)


def _rows(text: str, separator: str) -> Sequence[list[str]]:
    return [line.split(separator) for line in text.splitlines()]


def test_a_job_is_submitted_seen_held_released_and_deleted(site: Site, adapter: Adapter):
    job = adapter.submit("-H", "--no-requeue", "--mail-type", "NONE", "-p", "low", "-A", "chem", "-n", "2")
    assert job.isdigit()
    (seen,) = adapter.jobs("-j", job)
    wanted = {"JobID": job, "StateCompact": "PD", "UserName": "ann", "Account": "chem", "Partition": "low"}
    assert {field: seen[field] for field in wanted} == wanted
    assert (seen["Name"], seen["WorkDir"], seen["NumCPUs"], seen["TimeLimit"]) == ("desk", "/home/ann", "2", "30:00")
    adapter.call("scontrol", "release", job)
    is_running = lambda: adapter.jobs("-j", job)[0]["StateCompact"] == "R"  # noqa: E731
    assert wait_until(is_running, timeout_s=60, every_s=0.5), site.logs()
    assert job in [each["JobID"] for each in adapter.jobs("-u", "ann")]
    assert re.fullmatch(r"c\d", adapter.jobs("-j", job)[0]["NodeList"]), "where its desktop is looked for"
    adapter.call("scancel", job)
    ended = lambda: {each["StateCompact"] for each in adapter.jobs("-j", job)} <= {"CA", "CG"}  # noqa: E731
    assert wait_until(ended, timeout_s=60, every_s=0.5), site.logs()
    later = ("--begin", "2099-01-01T00:00:00", "-d", f"afterany:{job}")
    held = adapter.submit(*later, "--qos", "small", "-a", "1-2")
    adapter.call("scontrol", "hold", held)
    assert {each["Reason"] for each in adapter.jobs("-j", held)} == {"JobHeldUser"}
    adapter.call("scancel", held)


def test_what_the_cluster_has_and_how_busy_it_is(adapter: Adapter):
    nodes, cpus = (part.split("/") for part in _numbers(adapter.call("sinfo", "-aho", "%F/%C")))
    assert (nodes[3], cpus[3]) == ("4", "64")
    lines = adapter.call("sinfo", "-ahNO", "nodehost:100,gres:512,gresused:512,statelong").splitlines()
    gpus = {tuple(line.split()[:3:2]) for line in lines if line.startswith("g1 ")}
    assert len(gpus) == 1
    form = f"{RECORD}{UNIT.join(('%c', '%n', '%f'))}"
    found = [each.strip().split(UNIT) for each in adapter.call("sinfo", "-ho", form).split(RECORD)]
    assert ["16", "g1", "gpu,h100"] in found


def _numbers(text: str) -> tuple[str, str]:
    """The numbers in the only line without the cluster's name."""
    (line,) = [each.strip() for each in text.splitlines() if "CLUSTER" not in each]
    parts = line.split("/")
    return "/".join(parts[:4]), "/".join(parts[4:])


def test_queues_are_read_word_by_word(adapter: Adapter):
    lines = adapter.call("scontrol", "show", "part", "-o").splitlines()
    queues = [dict(re.fullmatch(r"(\w+)=(.+)", word).groups() for word in line.split()) for line in lines]
    assert {"low", "high", "gpu", "closed"} <= {queue["PartitionName"] for queue in queues}
    assert {queue["AllowAccounts"] for queue in queues} == {"ALL"}


def test_accounts_and_what_has_run(site: Site, adapter: Adapter):
    where = ("where", "user=ann", "cluster=it")
    said = adapter.call("sacctmgr", "-nP", "show", "users", "withassoc", "format=account,qos", *where)
    assert [account for account, _ in _rows(said, "|")] == ["chem"]
    job = adapter.submit("-H")
    adapter.call("scancel", job)
    form = ("-P", "--delimiter", UNIT, "-n", "--units", "G", "--allocations", "-o", ",".join(RECORD_FIELDS))

    def records() -> list[dict[str, str]]:
        said = adapter.call("sacct", *form, "-j", job, "--state", "CANCELLED", "-S", "now-1days", "-E", "now+1days")
        return [dict(zip(RECORD_FIELDS, row, strict=True)) for row in _rows(said, UNIT)]

    assert wait_until(lambda: len(records()) == 1, timeout_s=60, every_s=0.5), site.logs()
    assert (records()[0]["User"], records()[0]["JobName"]) == ("ann", "desk")
