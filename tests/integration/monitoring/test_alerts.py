"""The alerts of the chart, by promtool: which series call whom, with which words, and that healthy ones call nobody."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from devcluster.shell import run
from tests.prometheus import program
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

RUNBOOKS = "https://wiki.example.com/slurm"
VALUES = {"alerts": {"enabled": True, "runbooks": RUNBOOKS}}
OWN = 'namespace="research"'
HOUR = "x120"
"""So many times 30 s."""


class Case(NamedTuple):
    """Series, by their values over an hour, and what is said of them."""

    alert: str
    series: dict[str, str]
    labels: dict[str, str]
    summary: str


def always(value: float) -> str:
    return f"{value}+0{HOUR}"


def growing(by: float) -> str:
    return f"0+{by}{HOUR}"


SYNCER = f'{{{OWN}, container="syncer", instance="1"}}'
SCHEDULER = f'{{{OWN}, container="scheduler", instance="2"}}'
ACCOUNTS = f'{{{OWN}, container="accounts", instance="3"}}'
WATCHER = f'{{{OWN}, container="volumes", instance="6"}}'
OF_STATE = f'{{{OWN}, container="volumes", instance="6", persistentvolumeclaim="state-slurm-slurmctld-0"}}'
OF_BACKUP = f'{{{OWN}, container="volumes", instance="6", persistentvolumeclaim="slurm-state-backup"}}'
FAILED = f'sunkpy_backup_failed_timestamp_seconds{{{OWN}, container="volumes", instance="6"'
LATE = f'sunkpy_backup_late_timestamp_seconds{{{OWN}, container="volumes", instance="6"'
OF_SYNCER = {"namespace": "research", "container": "syncer", "instance": "1"}
OF_SCHEDULER = {"namespace": "research", "container": "scheduler", "instance": "2"}
OF_ACCOUNTS = {"namespace": "research", "container": "accounts", "instance": "3"}
OF_HOME = f'{{{OWN}, job="kubelet", instance="7", persistentvolumeclaim="slurm-home"}}'
OF_STATE_TOO = f'{{{OWN}, job="kubelet", instance="7", persistentvolumeclaim="state-slurm-slurmctld-0"}}'
RESEARCH = {"namespace": "research"}
HEALTHY = {
    f"kubelet_volume_stats_available_bytes{OF_HOME}": always(50),
    f"kubelet_volume_stats_capacity_bytes{OF_HOME}": always(100),
    f"kubelet_volume_stats_available_bytes{OF_STATE_TOO}": always(4),  # told by the container beside slurmctld
    f"kubelet_volume_stats_capacity_bytes{OF_STATE_TOO}": always(100),
    f"sunkpy_leader{SYNCER}": always(1),
    f"sunkpy_leader{SCHEDULER}": always(1),
    f"sunkpy_leader{ACCOUNTS}": always(1),
    f'sunkpy_leader{{{OWN}, container="scheduler", instance="4"}}': always(0),
    f"sunkpy_syncer_slurm_readable{SYNCER}": always(1),
    f"sunkpy_syncer_slurm_believed{SYNCER}": always(1),
    f"sunkpy_slurm_cache_age_seconds{SYNCER}": always(1),
    f'sunkpy_slurm_cache_age_seconds{{{OWN}, container="syncer", instance="5"}}': always(1e9),
    f"sunkpy_scheduler_poll_age_seconds{SCHEDULER}": always(1),
    f'sunkpy_scheduler_hooks_total{{{OWN}, hook="prolog", code="200"}}': growing(100),
    f"sunkpy_scheduler_oldest_handover_seconds{SCHEDULER}": always(300),
    f"slurm_nodes{{{OWN}}}": always(100),
    f"slurm_nodes_down{{{OWN}}}": always(10),
    f"slurm_nodes_drained{{{OWN}}}": always(20),
    f"slurm_nodes_draining{{{OWN}}}": always(5),
    f'sunkpy_nodeset_removal_held{{{OWN}, nodeset="a"}}': always(0),
    f'sunkpy_health_nodes{{{OWN}, nodeset="a", state="drained"}}': always(2),
    f'sunkpy_nodeset_pods_deleted_total{{{OWN}, nodeset="a", why="drained"}}': growing(10),
    f"sunkpy_scheduler_failed_looks_total{{{OWN}}}": always(0),
    f'sunkpy_reconcile_total{{{OWN}, container="syncer", queue="mirror", result="ok"}}': growing(100),
    f"sunkpy_accounts_settled_timestamp_seconds{ACCOUNTS}": f"0+30{HOUR}",
    f"slurm_server_thread_cnt{{{OWN}}}": always(20),
    f"slurm_slurmdbd_queue_size{{{OWN}}}": always(10),
    f"sunkpy_leader{WATCHER}": always(1),
    f'up{{{OWN}, container="volumes", pod="slurm-slurmctld-0", instance="6"}}': always(1),
    f"sunkpy_volume_size_bytes{OF_STATE}": always(100),
    f"sunkpy_volume_free_bytes{OF_STATE}": always(16),
    f"sunkpy_volume_inodes{OF_STATE}": always(0),
    f"sunkpy_volume_free_inodes{OF_STATE}": always(0),
    f"sunkpy_volume_size_bytes{OF_BACKUP}": always(100),
    f"sunkpy_volume_free_bytes{OF_BACKUP}": always(16),
    f"sunkpy_volume_inodes{OF_BACKUP}": always(100),
    f"sunkpy_volume_free_inodes{OF_BACKUP}": always(90),
    f"sunkpy_job_state_saved_timestamp_seconds{WATCHER}": f"0+30{HOUR}",
    f'{LATE}, of="queue", where="volume"}}': always(4000),
    f'{LATE}, of="queue", where="bucket"}}': always(4000),
    'slurm_nodes{namespace="other"}': always(1),
    'slurm_nodes_down{namespace="other"}': always(1),
}
DELETED = f"sunkpy_nodeset_pods_deleted_total{{{OWN}"
CASES = [
    Case("SlurmNotSeen", {}, RESEARCH, "Prometheus gets no metrics from any process of this release"),
    Case(
        "SlurmNobodyLeads", {f"sunkpy_leader{SYNCER}": always(0)}, {"namespace": "research", "container": "syncer"},
        "No replica of syncer leads, so its work is not done",
    ),
    Case(
        "SlurmNotReadable", {f"sunkpy_syncer_slurm_readable{SYNCER}": always(0)}, OF_SYNCER,
        "The syncer cannot read Slurm. It copies no drain and no cordon, and slurmd pods keep their last known state",
    ),
    Case(
        "SlurmNotBelieved", {f"sunkpy_syncer_slurm_believed{SYNCER}": always(0)}, OF_SYNCER,
        "Slurm's answers lack too many of its nodes. The syncer writes nothing to Slurm until they return or a person "
        "deletes their slurmd pods",
    ),
    Case(
        "SlurmAnswersLate", {f"sunkpy_slurm_cache_age_seconds{SYNCER}": always(90)}, OF_SYNCER,
        "The syncer's newest answer from Slurm is 1m 30s old",
    ),
    Case(
        "SlurmSchedulerBlind", {f"sunkpy_scheduler_poll_age_seconds{SCHEDULER}": always(60)}, OF_SCHEDULER,
        "The scheduler has read no states of jobs for 1m 0s. Pods are bound late or not at all",
    ),
    Case(
        "SlurmHooksRefused", {f'sunkpy_scheduler_hooks_total{{{OWN}, hook="epilog", code="401"}}': growing(30)},
        RESEARCH | {"hook": "epilog", "code": "401"},
        "The scheduler answers calls of epilog with 401. Jobs wait to start or to end",
    ),
    Case(
        "SlurmPodsDoNotEnd", {f"sunkpy_scheduler_oldest_handover_seconds{SCHEDULER}": always(1500)}, RESEARCH,
        "The pods of an ended job have not left their node for 25m 0s. No other job starts there",
    ),
    Case(
        "SlurmNodesDown", {f"slurm_nodes_down{{{OWN}}}": always(11)}, RESEARCH,
        "11 Slurm nodes are down, more than a tenth of all",
    ),
    Case(
        "SlurmNodesDrained", {f"slurm_nodes_drained{{{OWN}}}": always(21)}, RESEARCH,
        "26 Slurm nodes are drained or draining, more than a quarter of all",
    ),
    Case(
        "NodeSetRemovalHeld", {f'sunkpy_nodeset_removal_held{{{OWN}, nodeset="a"}}': always(1)},
        RESEARCH | {"nodeset": "a"},
        "NodeSet a removes no slurmd pod until a person acts, because too many would have to go at once",
    ),
    Case(
        "SlurmNodeNeedsPerson", {f'sunkpy_health_nodes{{{OWN}, nodeset="a", state="needs-a-person"}}': always(2)},
        RESEARCH | {"nodeset": "a"}, "2 sick nodes of NodeSet a do not come back by themselves",
    ),
    Case(
        "SlurmTooManyAtOnce", {f'sunkpy_syncer_capped_total{{{OWN}, action="DrainNode"}}': growing(1)},
        RESEARCH | {"action": "DrainNode"},
        "The syncer postpones DrainNode for some nodes, because it is due for too many at once",
    ),
    Case(
        "SlurmdPodsFail", {f'{DELETED}, nodeset="a", why="failed"}}': growing(0.1)}, RESEARCH | {"nodeset": "a"},
        "slurmd pods of NodeSet a fail again and again",
    ),
    Case(
        "SlurmJobsEndedByRemoval", {f'{DELETED}, nodeset="a", why="drain-timeout"}}': growing(0.1)},
        RESEARCH | {"nodeset": "a"},
        "slurmd pods of NodeSet a were deleted after drainTimeoutSeconds, and their jobs ended with them",
    ),
    Case(
        "SlurmDeviceTaken", {f'sunkpy_scheduler_device_refusals_total{{{OWN}, reason="taken"}}': growing(1)}, RESEARCH,
        "Pods wait, because somebody else has devices that Slurm gave their jobs. Does kube-scheduler hand "
        "out GPUs there?",
    ),
    Case(
        "SlurmSchedulerFault", {f"sunkpy_scheduler_failed_looks_total{{{OWN}}}": growing(1)}, RESEARCH,
        'The scheduler failed to decide about a gang, and does nothing for it. Its log line "not judged '
        'again" has the reason',
    ),
    Case(
        "SlurmPassesFail",
        {f'sunkpy_reconcile_total{{{OWN}, container="syncer", queue="mirror", result="error"}}': growing(30)},
        {"namespace": "research", "container": "syncer", "queue": "mirror"},
        "syncer fails again and again on entries of its queue mirror; its log has the reason",
    ),
    Case(
        "SlurmAccountsNotSettled", {f"sunkpy_accounts_settled_timestamp_seconds{ACCOUNTS}": always(0)}, OF_ACCOUNTS,
        "Accounts, QoS or users in slurmdbd have differed from the values for 50m 0s",
    ),
    Case(
        "SlurmctldBusy", {f"slurm_server_thread_cnt{{{OWN}}}": always(200)}, RESEARCH,
        "slurmctld handles 200 requests at once, of at most 256",
    ),
    Case(
        "SlurmdbdBehind", {f"slurm_slurmdbd_queue_size{{{OWN}}}": always(6000)}, RESEARCH,
        "6000 records wait in slurmctld until slurmdbd takes them",
    ),
    Case(
        "SlurmFiguresCut", {f'sunkpy_figures_series_cut{{{OWN}, name="a"}}': always(7)}, RESEARCH,
        "7 series of Slurm's metrics are not shown; see the value syncer.metrics.seriesPerName",
    ),
    Case(
        "SlurmVolumeFull", {f"sunkpy_volume_free_bytes{OF_STATE}": always(4)},
        RESEARCH | {"persistentvolumeclaim": "state-slurm-slurmctld-0"},
        "Volume state-slurm-slurmctld-0 is 96% full",
    ),
    Case(
        "SlurmVolumeFilling", {f"sunkpy_volume_free_bytes{OF_BACKUP}": always(4)},
        RESEARCH | {"persistentvolumeclaim": "slurm-state-backup"}, "Volume slurm-state-backup is 96% full",
    ),
    Case(
        "SlurmClaimFilling", {f"kubelet_volume_stats_available_bytes{OF_HOME}": always(4)},
        RESEARCH | {"persistentvolumeclaim": "slurm-home"},
        "Claim slurm-home (homes, scratch or a site's folder) is 96% full",
    ),
    Case(
        "SlurmVolumesNotSeen",
        {f'up{{{OWN}, container="volumes", pod="slurm-slurmctld-0", instance="6"}}': always(0)},
        RESEARCH | {"container": "volumes", "pod": "slurm-slurmctld-0", "instance": "6"},
        "Prometheus cannot see how full the volumes of pod slurm-slurmctld-0 are; the log of its container "
        "volumes has the reason",
    ),
    Case(
        "SlurmStateNotSaved", {f"sunkpy_job_state_saved_timestamp_seconds{WATCHER}": always(0)}, RESEARCH,
        "slurmctld has not saved its jobs for 50m 0s. If it ends, it forgets the changes since then",
    ),
    Case(
        "SlurmBackupLate", {f'{LATE}, of="queue", where="volume"}}': always(60)}, RESEARCH | {"of": "queue"},
        "A new backup of the queue is late by 49m 0s",
    ),
    Case(
        "SlurmBackupFailed", {f'{FAILED}, of="queue"}}': always(600)}, RESEARCH | {"of": "queue"},
        "The last backup of the queue failed 40m 0s ago",
    ),
    Case(
        "SlurmBackupNotCopied", {f'{LATE}, of="queue", where="bucket"}}': always(60)}, RESEARCH | {"of": "queue"},
        "The copy of the newest backup of the queue in the bucket is late by 49m 0s",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def rules() -> dict[str, dict[str, object]]:
    spec = of_kind(render("slurm", VALUES), "PrometheusRule")["demo"]["spec"]
    (group,) = spec["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def promtool(folder: Path, rules: dict[str, dict[str, object]], tests: list[dict[str, object]]) -> None:
    """Raises when a test of rules fails, with what promtool says."""
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": [*rules.values()]}]}))
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(whole))
    run([program("promtool"), "check", "rules", str(folder / "rules.yaml")])
    run([program("promtool"), "test", "rules", str(folder / "tests.yaml")])


def of_series(series: dict[str, str], expected: dict[str, list[object]]) -> dict[str, object]:
    return {
        "interval": "30s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "50m", "alertname": alert, "exp_alerts": alerts} for alert, alerts in expected.items()
        ],
    }


def test_what_calls_whom_with_which_words(tmp_path: Path, rules: dict[str, dict[str, object]]) -> None:
    tests = []
    for case in CASES:
        rule = rules[case.alert]
        annotations = {"summary": case.summary, **{k: v for k, v in rule["annotations"].items() if k != "summary"}}
        alert = {"exp_labels": case.labels | rule["labels"], "exp_annotations": annotations}
        tests.append(of_series(HEALTHY | case.series if case.series else {}, {case.alert: [alert]}))
    promtool(tmp_path, rules, tests)


def test_who_is_healthy_calls_nobody(tmp_path: Path, rules: dict[str, dict[str, object]]) -> None:
    promtool(tmp_path, rules, [of_series(HEALTHY, {alert: [] for alert in rules})])


@pytest.mark.parametrize(
    ("alert", "series"),
    [
        ("SlurmVolumeFull", {f"sunkpy_volume_free_bytes{OF_BACKUP}": always(4)}),
        ("SlurmStateNotSaved", {
            f"sunkpy_job_state_saved_timestamp_seconds{WATCHER}": always(0),
            f"sunkpy_syncer_slurm_readable{SYNCER}": always(0),
        }),
    ],
    ids=["old backups make room by themselves", "a slurmctld that is down saves nothing"],
)  # fmt: skip
def test_what_calls_nobody(
    tmp_path: Path, rules: dict[str, dict[str, object]], alert: str, series: dict[str, str]
) -> None:
    promtool(tmp_path, rules, [of_series(HEALTHY | series, {alert: []})])


def test_a_volume_without_room_for_files_is_full(tmp_path: Path, rules: dict[str, dict[str, object]]) -> None:
    rule = rules["SlurmVolumeFull"]
    series = {f"sunkpy_volume_inodes{OF_STATE}": always(100), f"sunkpy_volume_free_inodes{OF_STATE}": always(0)}
    labels = RESEARCH | {"persistentvolumeclaim": "state-slurm-slurmctld-0"} | rule["labels"]
    annotations = rule["annotations"] | {"summary": "Volume state-slurm-slurmctld-0 is 100% full"}
    alert = {"exp_labels": labels, "exp_annotations": annotations}
    promtool(tmp_path, rules, [of_series(HEALTHY | series, {"SlurmVolumeFull": [alert]})])


def test_volumes_that_are_seen_do_not_hide_that_nobody_works(
    tmp_path: Path, rules: dict[str, dict[str, object]]
) -> None:
    rule = rules["SlurmNotSeen"]
    alert = {"exp_labels": RESEARCH | rule["labels"], "exp_annotations": rule["annotations"]}
    promtool(tmp_path, rules, [of_series({f"sunkpy_leader{WATCHER}": always(1)}, {"SlurmNotSeen": [alert]})])


def test_every_alert_is_tried(rules: dict[str, dict[str, object]]) -> None:
    assert [case.alert for case in CASES] == [*rules]
