"""Which fields of the jobs of pods their owners may change: every one that Slurm shows is decided about. Mail."""

from __future__ import annotations

import re

import pytest

from tests.unit.charts.rendering import of_kind, render
from tests.unit.docs.source import ROOT

# What a job_submit.lua is shown of a change (job_submit_lua.c, _get_job_req_field): by 24.11, and by 26.05 besides.
SHOWN = """
    account acctg_freq admin_comment alloc_node argc argv array_inx assoc_comment assoc_qos batch_features
    begin_time bitflags boards_per_node burst_buffer clusters comment container contiguous cores_per_socket
    cpu_freq_gov cpu_freq_max cpu_freq_min cpus_per_task cpus_per_tres cron_job default_account default_qos
    delay_boot dependency end_time environment exc_nodes extra features gres group_id het_job_offset immediate
    licenses mail_type mail_user max_cpus max_nodes mcs_label mem_per_tres min_cpus min_mem_per_cpu min_mem_per_node
    min_nodes name network nice ntasks_per_board ntasks_per_core ntasks_per_gpu ntasks_per_node ntasks_per_socket
    ntasks_per_tres num_tasks oversubscribe pack_job_offset partition pn_min_cpus pn_min_memory pn_min_tmp_disk
    prefer priority qos reboot req_context req_nodes req_switch requeue reservation script selinux_context shared
    site_factor sockets_per_board sockets_per_node spank_job_env spank_job_env_size std_err std_in std_out
    threads_per_core time_limit time_min tres_bind tres_freq tres_per_job tres_per_node tres_per_socket
    tres_per_task user_id user_name wait4switch wckey work_dir
"""
SHOWN_LATER = """
    core_spec segment_size thread_spec
"""

# The owner's own, an operator's alone, of the submit alone, another name of one that is kept, or what only steps use.
LEFT = """
    acctg_freq alloc_node argc argv array_inx assoc_comment assoc_qos batch_features begin_time bitflags
    boards_per_node burst_buffer clusters container cpu_freq_gov cpu_freq_max cpu_freq_min cron_job default_account
    default_qos delay_boot end_time environment group_id het_job_offset immediate mail_type mail_user mcs_label
    network nice ntasks_per_board ntasks_per_core ntasks_per_gpu oversubscribe pack_job_offset pn_min_memory
    priority reboot req_context script segment_size selinux_context site_factor sockets_per_board spank_job_env
    spank_job_env_size time_limit time_min tres_bind tres_freq user_id user_name
"""


def kept() -> list[str]:
    script = (ROOT / "charts/slurm/files/job_submit.lua").read_text()
    (listed,) = re.findall(r"^local KEPT = {(.*?)^}", script, re.MULTILINE | re.DOTALL)
    return re.findall(r'"(\w+)"', listed)


def test_each_field_that_slurm_shows_is_kept_or_left_to_the_owner():
    assert sorted([*kept(), *LEFT.split()]) == sorted((SHOWN + SHOWN_LATER).split())


def test_the_script_runs_programs_only_when_it_is_loaded():
    """While slurmctld asks the script about a job, no other job can be submitted or started."""
    script = (ROOT / "charts/slurm/files/job_submit.lua").read_text()
    runs = [line for line in script.splitlines() if re.search(r"\b(popen|os\.execute)\b", line)]
    assert [line for line in runs if not line.startswith("local ")] == []
    assert len(runs) == 2


@pytest.mark.parametrize(
    "field", ["mem_per_tres", "cpus_per_tres", "threads_per_core", "ntasks_per_tres", "cores_per_socket", "req_switch"]
)
def test_what_sizes_and_places_a_job_is_kept_by_both_versions(field):
    assert field in kept()
    assert field in SHOWN.split()


def test_a_script_of_the_site_stands_beside_the_charts_under_another_name():
    script = "function slurm_job_submit() return slurm.SUCCESS end\n"
    values = {"slurmConfig": {"files": {"job_submit.lua": script}}}
    with_it = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]
    without = of_kind(render("slurm"), "ConfigMap")["demo-slurm-config"]["data"]
    assert with_it.pop("site_job_submit.lua") == script
    assert with_it == without


@pytest.mark.parametrize(("topology", "has_one"), [({}, "false"), ({"source": "auto"}, "true")])
def test_ranks_follow_the_topology_where_there_is_one(topology: dict[str, str], has_one: str):
    values = {"topology": topology}
    script = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["job_submit.lua"]
    assert f"local HAS_TOPOLOGY = {has_one}\n" in script


@pytest.mark.parametrize(("program", "sends"), [("/bin/true", "false"), ("/usr/local/bin/mail", "true")])
def test_people_are_told_that_no_mail_is_sent_where_none_is(program: str, sends: str):
    values = {"slurmConfig": {"conf": {"MailProg": program}}}
    script = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["job_submit.lua"]
    assert f"local SENDS_MAIL = {sends}\n" in script
