"""Scripts of the site, on real daemons. Its job_submit.lua goes before the chart's own and takes nothing from it."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from devcluster.waiting import wait_until
from sunkpy.core.gang.identity import gang_of
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.asking import connect
from tests.integration.slurm.daemons import ONE_SLURMD, RealSlurm
from tests.integration.slurm.site import VALUES, Node, Site
from tests.integration.slurm.test_check_config import check
from tests.integration.slurm.test_check_config import root as root
from tests.integration.slurm.test_real_people import GANG, pods_job
from tests.polling import until
from tests.roots import SUITE
from tests.unit.charts.test_seal import kept

pytestmark = pytest.mark.integration

PEOPLE: Final = {"ann": 2001, "bob": 2002}
SITE: Final = """\
-- What sites do: refuse with a text, set what is not said, mark; globals, and functions added to those of Lua.
LONGEST = 600
refused = 0
function string.begins(text, with) return text:sub(1, #with) == with end

function slurm_job_submit(job_desc, partitions, submit_uid)
  if job_desc.name == "wrong" then
    refused = refused + 1
    slurm.log_user("%s", "no job is called wrong here, " .. job_desc.user_name)
    return slurm.ERROR
  end
  if job_desc.name == "breaks" then return job_desc.nowhere.at.all end
  if job_desc.name == "forges" then job_desc.comment = "k8s:chem/web:u-1" end
  if job_desc.time_limit == slurm.NO_VAL then job_desc.time_limit = 7 end
  if job_desc.name == "odd" then -- whatever can be set
    local told = "seen extra=" .. tostring(job_desc.extra)
    for _, field in ipairs(FIELDS) do
      local value = job_desc[field]
      pcall(function() job_desc[field] = type(value) == "number" and 1 or "odd" end)
    end
    slurm.log_info("%s", told)
  end
  if job_desc.name:begins("by-policy") then job_desc.features = "gpu" end
end

function slurm_job_modify(job_desc, job_rec, partitions, modify_uid)
  if job_desc.comment == "wrong" then
    slurm.log_user("no comment is wrong here")
    return slurm.ERROR
  end
  if job_desc.comment == "forges" then job_desc.comment = "k8s:chem/web:u-1" end
  if job_desc.nice == 1007 then job_desc.partition = "high" end
  return slurm.SUCCESS
end
slurm_log = "a global of its own"
return slurm.SUCCESS
"""


FILTER: Final = """\
function slurm_cli_setup_defaults(options, early)
  options["comment"] = "by the filter"
  return slurm.SUCCESS
end
function slurm_cli_pre_submit(options, offset)
  if options["job-name"] == "filtered" then
    slurm.log_error("no job is called filtered here")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job, step) return slurm.SUCCESS end
"""


MAIL: Final = """\
#!/bin/bash
{ printf '%s\\n' "$(id -un)" "$@" "$SLURM_JOB_STATE"; cat; echo end of mail; } > /var/tmp/mail
"""


def _script() -> str:
    return "FIELDS = {" + ", ".join(f'"{field}"' for field in kept()) + "}\n" + SITE


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    files = {**ONE_SLURMD.files, "site_job_submit.lua": _script(), "cli_filter.lua": FILTER, "mail": MAIL}
    conf = f"{ONE_SLURMD.conf}CliFilterPlugins=cli_filter/lua\nMailProg=/etc/slurm/mail\n"
    machines = msgspec.structs.replace(ONE_SLURMD, files=files, conf=conf)
    slurm = RealSlurm(tmp_path_factory.mktemp("scripts"), SUITE, people=PEOPLE, machines=machines)
    yield slurm
    slurm.stop()


@pytest.fixture
async def scheduler(slurm: RealSlurm) -> AsyncIterator[Slurm]:
    client = connect(slurm, "k8s")

    async def is_ready() -> bool:
        try:
            return bool(await client.nodes())
        except errors.SlurmError:
            return False

    await until(is_ready, timeout_s=90, what="slurmctld to answer")
    yield client
    await client.close()


def _submit(slurm: RealSlurm, *options: str) -> tuple[int, str]:
    own = ("--parsable", "--hold", "--output=/dev/null", "--mem=10", "--chdir=/tmp")
    return slurm.run_as("ann", "sbatch", *own, *options, "--wrap=true")


def _shown(slurm: RealSlurm, job: object) -> str:
    return slurm.run_as("slurm", "scontrol", "show", "job", str(job))[1]


async def test_it_refuses_in_its_own_words_and_sets_what_people_did_not_say(slurm: RealSlurm, scheduler: Slurm):
    code, said = _submit(slurm, "--job-name=wrong")
    assert (code, "no job is called wrong here, ann" in said) == (1, True), said
    code, said = _submit(slurm, "--job-name=by-policy-of-the-site")
    assert code == 0, said
    shown = _shown(slurm, said.split()[-1])
    assert "TimeLimit=00:07:00" in shown
    assert "Features=gpu" in shown
    code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={said.split()[-1]}", "comment=wrong")
    assert (code, "no comment is wrong here" in said) == (1, True), said


async def test_while_it_fails_no_job_is_taken_and_its_words_are_told(slurm: RealSlurm, scheduler: Slurm):
    code, said = _submit(slurm, "--job-name=breaks")
    assert code == 1
    assert (
        "job_submit.lua of slurmConfig.files failed, so no job is taken: job_submit.lua of slurmConfig.files:" in said
    )
    assert "attempt to index field 'nowhere' (a nil value)" in said


async def test_what_it_makes_of_a_job_of_people_is_judged_as_if_they_had_asked_for_it(
    slurm: RealSlurm, scheduler: Slurm
):
    forged = "a comment that starts with k8s: says that a job stands for Kubernetes pods"
    code, said = _submit(slurm, "--job-name=forges")
    assert (code, forged in said) == (1, True), said
    code, said = _submit(slurm)
    assert code == 0, said
    code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={said.split()[-1]}", "comment=forges")
    assert (code, forged in said) == (1, True), said


@pytest.mark.parametrize("user", ["ann", "k8s"])
async def test_of_a_job_of_pods_it_sees_no_seal_and_sets_nothing_that_they_rely_on(
    slurm: RealSlurm, scheduler: Slurm, user: str
):
    whose = {"user": user} if user != "k8s" else {}
    plain = await scheduler.job((await scheduler.submit_job(pods_job(hold=True, name="even"), **whose)).job_id)
    odd = await scheduler.job((await scheduler.submit_job(pods_job(hold=True, name="odd"), **whose)).job_id)
    assert gang_of(odd, scheduler="k8s") == GANG
    told = [line for line in (slurm.root / "var/log/slurmctld.log").read_text().splitlines() if "seen extra=" in line]
    assert told[-1].endswith("seen extra=nil")
    same = [set(_facts(_shown(slurm, job.id))) for job in (plain, odd)]
    moments = {"SubmitTime", "EligibleTime", "LastSchedEval"}
    assert {fact.partition("=")[0] for fact in same[0] ^ same[1]} <= {"JobId", "JobName", *moments}
    assert "TimeLimit=00:07:00" in same[1], "a limit is the owner's to set, and the site's"
    if user == "ann":
        code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={odd.id}", "nice=1007")
        assert code == 0, said
        assert "Partition=low" in _shown(slurm, odd.id)
        code, said = slurm.run_as("ann", "scontrol", "update", f"jobid={odd.id}", "comment=mine")
        assert (code, "comment of this job cannot be changed here" in said) == (1, True), said
    with pytest.raises(errors.Rejected, match="Slurm error -1"):
        await scheduler.submit_job(pods_job(name="wrong"), **whose)
    assert f"no job is called wrong here, {user}" in (slurm.root / "var/log/slurmrestd.log").read_text()
    for job in (plain, odd):
        await scheduler.cancel_job(job.id, **whose)


def _facts(shown: str) -> list[str]:
    return [word for word in shown.split() if "=" in word]


TASKS: Final = {
    "taskProlog": 'echo export OF_SITE="$(id -un)-$SLURM_LOCALID"\necho print hello\n[ -z "$FAILS" ] || exit 9',
    "taskEpilog": "echo $SLURM_JOB_ID as $(id -un) >> /var/tmp/task-epilogs",
}


async def test_lines_around_tasks_reach_nodes_with_slurm_conf_and_run_as_the_user(tmp_path: Path, slurm: RealSlurm):
    site = Site(tmp_path / "site", values={**VALUES, "hooks": TASKS}, nodes=(Node("c1"),))
    told = site.slurm.root / "var/tmp/task-epilogs"
    try:
        await site.settle()
        code, said = site.shell("ann", "cd /tmp; srun --ntasks=2 bash -c 'echo $SLURM_JOB_ID $OF_SITE'")
        assert code == 0, said + site.logs()
        job = said.splitlines()[-1].split()[0]
        assert sorted(said.splitlines()) == [f"{job} ann-0", f"{job} ann-1", "hello", "hello"]
        assert told.read_text() == f"{job} as ann\n" * 2
        code, said = site.shell("ann", "cd /tmp; FAILS=1 srun bash -c 'echo runs'")
        assert (code != 0, "runs" in said) == (True, False), said
        state = lambda: site.shell("ann", "sinfo -ho %T -n c1")[1].split()[0]  # noqa: E731
        assert wait_until(lambda: state() == "idle", timeout_s=30, every_s=0.2), f"it is {state()}, not drained"
    finally:
        site.stop()


@pytest.mark.parametrize("part", ["slurmctld", "slurmd"])
def test_lines_around_tasks_that_bash_cannot_read_are_refused_before_anything_is_changed(
    root: Path, tmp_path: Path, part: str
):
    code, words = check(root, tmp_path / "config", part, {"hooks": {"taskProlog": "if true; then"}})
    assert code == 3, words
    assert words.startswith("bash cannot read hooks.taskProlog and hooks.taskEpilog, one below the other:\n")
    assert "syntax error" in words
    assert check(root, tmp_path / "whole", part, {"hooks": TASKS}) == (0, "")


def _around_jobs(hook: str, scripts: dict[str, str | bytes], **more: object) -> dict[str, object]:
    """Values by which the release itself makes the ConfigMap with these scripts."""
    made: dict[str, object] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-own"}}
    made["data"] = {name: text for name, text in scripts.items() if isinstance(text, str)}
    binary = {name: content for name, content in scripts.items() if isinstance(content, bytes)}
    made["binaryData"] = {name: base64.b64encode(content).decode() for name, content in binary.items()}
    return {"hooks": {f"{hook}ConfigMap": "demo-own"}, "extraObjects": [made], **more}


LACKS: Final = "images.slurmd lacks what these values name:\n  hooks"


@pytest.mark.parametrize(
    ("hook", "script", "said"),
    [
        (
            "prolog",
            "#!/bin/bash\nif true; then\n",
            "bash cannot read hooks.prologConfigMap:\n  10-own: line 3: syntax error",
        ),
        ("epilog", "#!/bin/sh -e\n;;\n", "sh cannot read hooks.epilogConfigMap:\n  10-own: 2: Syntax error"),
        ("prolog", "#!/opt/python3\n", f"{LACKS}.prologConfigMap: 10-own: there is no '/opt/python3'\n"),
        ("prolog", "#!/bin/bash\r\n", f"{LACKS}.prologConfigMap: 10-own: there is no $'/bin/bash\\r'\n"),
        ("epilog", "#!/usr/bin/env pyhton3", f"{LACKS}.epilogConfigMap: 10-own: there is no 'pyhton3'\n"),
    ],
)
def test_scripts_around_jobs_that_would_drain_each_node_are_refused_before_anything_is_changed(
    root: Path, tmp_path: Path, hook: str, script: str, said: str
):
    code, words = check(root, tmp_path / "config", "slurmd", _around_jobs(hook, {"10-own": script}))
    assert (code, words[: len(said)]) == (3, said), words


NO_SHELL: Final = b"(\0\1 if ;; )\n\xff\xfe(\n"


ENDS: Final = (
    'tail -n +4 "$0" | tar x -C /opt\nexit 0',
    'eval "$finish"; exit $res',
    '  exit "$?" ; # the archive',
    'exec perl -x "$0"',
)


def test_what_follows_the_line_at_which_a_script_always_ends_is_not_read(root: Path, tmp_path: Path):
    """As scripts that unpack themselves have it."""
    scripts: dict[str, str | bytes] = {
        f"1{number}-{shell}": f"#!/bin/{shell}\nif true; then :; fi\n{end}\n".encode() + NO_SHELL
        for shell in ("bash", "sh")
        for number, end in enumerate(ENDS)
    }
    assert check(root, tmp_path / "config", "slurmd", _around_jobs("prolog", scripts)) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    "end",
    [
        "if true; then\nexit 0",
        "cat <<EOF\nexit 0\nEOF",
        "echo \\\nexit 0",
        "false &&\nexit 0",
        "false || exit 0",
        "# Or else; exit 0",
        "echo \\; exit 3",
        "echo '\nexit 0\n'",
        "end() {\nexit 0\n}",
        "exec 2>&1",
        ";;\nexit 0",
    ],
)
def test_what_follows_a_line_at_which_a_script_may_go_on_is_read(root: Path, tmp_path: Path, shell: str, end: str):
    script = f"#!/bin/{shell}\n{end}\n".encode() + NO_SHELL
    code, words = check(root, tmp_path / "config", "slurmd", _around_jobs("epilog", {"10-own": script}))
    assert (code, words.partition("\n")[0]) == (3, f"{shell} cannot read hooks.epilogConfigMap:"), words


def test_scripts_around_jobs_that_can_be_started_are_accepted(root: Path, tmp_path: Path):
    """The interpreter of one is on a volume, that of another is no shell, and one is no script. One sets an option of
    bash without which bash cannot read it.
    """
    scripts: dict[str, str | bytes] = {
        "10-bash": "#!/bin/bash\nexit 1\n",
        "20-perl": "#!/usr/bin/env perl\nif ;;\n",
        "read.me": "if ; then\n",
    }
    volume = {"sharedFolders": {"/opt/site": {"nfs": {"server": "nas", "path": "/site"}}}}
    scripts["30-own"] = "#!/opt/site/bin/bash\nif\n"
    scripts["40-patterns"] = "#!/bin/bash\nshopt -s extglob\ncase $1 in @(a|b)) exit 0 ;; esac\n"
    assert check(root, tmp_path / "config", "slurmd", _around_jobs("prolog", scripts, **volume)) == (0, "")


async def test_a_filter_speaks_where_people_type_before_anything_is_sent(slurm: RealSlurm, scheduler: Slurm):
    code, said = _submit(slurm, "--job-name=filtered")
    assert (code, "no job is called filtered here" in said) == (1, True), said
    code, said = _submit(slurm)
    assert code == 0, said
    assert "Comment=by the filter" in _shown(slurm, said.split()[-1])


async def test_mail_is_sent_by_the_program_of_the_site(slurm: RealSlurm, scheduler: Slurm):
    """As values.yaml says of MailProg."""
    own = ("--parsable", "--output=/dev/null", "--mem=10", "--chdir=/tmp", "--job-name=run", "--wrap=true")
    code, said = slurm.run_as("ann", "sbatch", *own, "--mail-type=END", "--mail-user=ann@example.com")
    assert code == 0, said
    mail = slurm.root / "var/tmp/mail"
    assert wait_until(lambda: mail.exists() and "end of mail" in mail.read_text(), timeout_s=60), slurm.logs()
    sender, option, subject, user, state, *text = mail.read_text().splitlines()
    assert (sender, option, user, state, text) == ("slurm", "-s", "ann@example.com", "COMPLETED", ["end of mail"])
    assert subject.startswith(f"Slurm Job_id={said.split()[0]} Name=run Ended, ")


def test_a_filter_that_cannot_be_read_is_refused_before_anything_is_changed(root: Path, tmp_path: Path):
    conf = {"CliFilterPlugins": "cli_filter/lua"}
    values = {"slurmConfig": {"conf": conf, "files": {"cli_filter.lua": "function slurm_cli_setup_defaults("}}}
    code, words = check(root, tmp_path / "config", "login", values)
    assert code == 3, words
    assert words.startswith("srun of images.login does not start on these values:\n")
    assert "cli_filter.lua:2: " in words
    whole = {"slurmConfig": {"conf": conf, "files": {"cli_filter.lua": FILTER}}}
    assert check(root, tmp_path / "whole", "login", whole) == (0, "")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("function slurm_job_submit(", "job_submit.lua of slurmConfig.files:2: "),
        ("nothing.at_all = 1", "attempt to index global 'nothing' (a nil value)"),
        ("function slurm_job_submit() end", "job_submit.lua of slurmConfig.files has no function slurm_job_modify"),
        ("return slurm.ERROR", "job_submit.lua of slurmConfig.files returns -1, not slurm.SUCCESS"),
    ],
)
def test_one_that_slurmctld_could_not_load_is_refused_before_anything_is_changed(
    root: Path, tmp_path: Path, script: str, said: str
):
    values = {"slurmConfig": {"files": {"job_submit.lua": script}}}
    code, words = check(root, tmp_path / "config", "slurmctld", values)
    assert code == 3, words
    assert words.startswith("slurmctld does not start on these values:\n")
    assert said in words


def test_one_that_slurmctld_can_load_is_accepted(root: Path, tmp_path: Path):
    values = {"slurmConfig": {"files": {"job_submit.lua": _script()}}}
    assert check(root, tmp_path / "config", "slurmctld", values) == (0, "")
