import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml

from sunkpy.core import names
from sunkpy.core.accounts.records import JobRecord
from sunkpy.core.model.objects import Condition, Meta, PodStatus
from sunkpy.core.model.states import SlurmJob
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus
from sunkpy.core.overview.backups import Backup
from sunkpy.core.overview.checks import diagnose, render_checks
from sunkpy.core.overview.installation import (
    AdmissionPolicy,
    BindingSpec,
    Canary,
    CanaryJob,
    HooksFound,
    Installation,
    Lease,
    LeaseSpec,
    OurContainer,
    OurPod,
    OurPodSpec,
    OurWorkload,
    PolicyBinding,
    Seen,
    SharedVolume,
    SlurmFound,
    Workload,
)
from sunkpy.core.overview.volumes import FILLING, NOT_SAVED_S, VolumesOfPod
from tests.unit.charts.rendering import render
from tests.unit.core.overview.test_pool import node, slurmd

ROOT = Path(__file__).resolve().parents[4]
NOW = datetime(2026, 11, 24, 3, 0, 0, tzinfo=UTC)
READY = (Condition(type="Ready", status="True"),)


def our_pod(component, *, tag="0.1.0", ready=True):
    labels = {"app.kubernetes.io/component": component}
    return OurPod(
        metadata=Meta(name=f"slurm-{component}", namespace="slurm", labels=labels),
        spec=OurPodSpec(containers=(OurContainer(name=component, image=f"registry:5000/sunkpy:{tag}"),)),
        status=PodStatus(phase="Running", conditions=READY if ready else ()),
    )


def ours(component, *, wanted=1, ready=1):
    labels = {"app.kubernetes.io/component": component}
    meta = {"namespace": "slurm", "name": f"slurm-{component}", "labels": labels}
    body = {"metadata": meta, "spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}
    return msgspec.convert(body, OurWorkload)


def deployed(*others):
    return {"our_workloads": {"Deployment": (ours("operator"), *others), "StatefulSet": (ours("slurmctld"),)}}


def lease(holder="slurm-scheduler-0/10.0.0.1", renewed="2026-11-24T02:59:55.000000Z"):
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=12, renew_time=renewed)
    return Lease(metadata=Meta(name="slurm-scheduler", namespace="slurm"), spec=spec)


def binding(*actions, of="slurm-notes"):
    return PolicyBinding(spec=BindingSpec(policy_name=of, validation_actions=actions))


def policies(*names):
    return tuple(AdmissionPolicy(metadata=Meta(name=name)) for name in names)


def workload(namespace, name, priority_class="system-node-critical"):
    spec = {"template": {"spec": {"priorityClassName": priority_class}}}
    return msgspec.convert({"metadata": {"namespace": namespace, "name": name}, "spec": spec}, Workload)


def with_system_classes(**values):
    """Policy and binding of chart sunkpy as they are made."""
    made = [each for each in render("sunkpy", values) if each["metadata"]["name"].endswith("-critical-pods")]
    policy, bound = (
        msgspec.convert(each, kind) for each, kind in zip(made, (AdmissionPolicy, PolicyBinding), strict=True)
    )
    return msgspec.structs.replace(
        WELL, policies=(*WELL.policies, policy), bindings=(*WELL.bindings, bound), workloads=OTHERS
    )


def in_nodeset(number, *, ready=True):
    found = node(number, ready=ready)
    metadata = msgspec.structs.replace(found.metadata, labels={names.LABEL_NODESET: "gpu"})
    return msgspec.structs.replace(found, metadata=metadata)


def nodeset(*conditions, generation=2, observed=2):
    status = NodeSetStatus(observed_generation=observed, conditions=conditions)
    return NodeSet(metadata=Meta(name="gpu", namespace="slurm", generation=generation), status=status)


def ready_slurmd(number, *, ready=True):
    return msgspec.structs.replace(slurmd(number), status=PodStatus(conditions=READY if ready else ()))


def backup(component, problem="", last_success="2026-11-24T03:17:00Z"):
    return Backup(
        of="database",
        namespace="slurm",
        cron_job=f"slurm-{component}",
        schedule="",
        problem=problem,
        last_success=last_success,
    )


WELL = Installation(
    now=NOW,
    own_version="0.1.0",
    server_version="v1.35.0",
    has_nodeset_kind=True,
    rights={"list nodes": True, "list pods": True},
    policies=policies("slurm-notes"),
    bindings=(binding("Deny"),),
    workloads={},
    shared=(),
    nodes=(in_nodeset(1), in_nodeset(2), node(3)),
    heartbeats={"node-1": "2026-11-24T02:59:52Z", "node-2": "2026-11-24T03:00:02Z", "node-3": "2020-01-01T00:00:00Z"},
    nodesets=(nodeset(Condition(type="Available", status="True")),),
    slurmd_pods=(ready_slurmd(1), ready_slurmd(2)),
    processes=(our_pod("scheduler"), our_pod("syncer"), our_pod("slurmctld", tag="24.11")),
    **deployed(ours("scheduler"), ours("syncer"), ours("own-login", wanted=0, ready=0)),
    leases=(lease(),),
    hooks=HooksFound(ready={"slurm/slurm-hooks": 2}),
    secrets={"slurm/slurm-jwt-key": True},
    backups=(backup("backup"), backup("state-backup")),
    volumes=(
        VolumesOfPod(
            pod="slurm-slurmctld-0", used={"state-slurm-slurmctld-0": 0.21}, job_state_saved=NOW.timestamp() - 300
        ),
        VolumesOfPod(pod="slurm-mariadb-0", used={"data-slurm-mariadb-0": 0.5, "slurm-backup": 0.85}),
    ),
    slurm=SlurmFound(release="24.11.5", api_version="v0.0.42", cluster="c1", is_up=True, nodes=2),
)


BY_NFS = {"nfs": {"server": "NAS.example.com", "path": "/home"}}
BY_CSI = {"csi": {"driver": "nfs.csi.k8s.io", "volumeAttributes": {"server": "10.0.0.9", "share": "/data"}}}
BY_EFS = {"csi": {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1"}}
ALL_PROTECTED = "2 NFS servers behind claims, which no pod may mount by itself"


@pytest.mark.parametrize(
    ("volumes", "servers", "level", "found"),
    [
        ([BY_NFS], [], "warning", "every pod may mount NAS.example.com (PersistentVolume pv-1)"),
        ([BY_NFS, BY_CSI], ["nas.example.com."], "warning", "every pod may mount 10.0.0.9 (PersistentVolume pv-2)"),
        ([BY_NFS, BY_CSI], ["nas.example.com", "10.0.0.9"], "ok", ALL_PROTECTED),
        ([BY_NFS, BY_CSI], ["*"], "ok", ALL_PROTECTED),
        ([BY_EFS], ["*"], "ok", "no NFS server is named by PersistentVolume pv-1"),
    ],
)
def test_a_file_server_behind_a_claim_that_every_pod_may_mount_is_said(volumes, servers, level, found):
    made = render("slurm", {"home": {"protect": {"servers": servers}}})
    ours = [each for each in made if each["metadata"]["name"].endswith("-homes")]
    shared = [{"metadata": {"name": f"pv-{at}"}, "spec": spec} for at, spec in enumerate(volumes, 1)]
    facts = msgspec.structs.replace(
        WELL,
        policies=(*WELL.policies, *(msgspec.convert(each, AdmissionPolicy) for each in ours[:1])),
        bindings=(*WELL.bindings, *(msgspec.convert(each, PolicyBinding) for each in ours[1:])),
        shared=msgspec.convert(shared, tuple[SharedVolume, ...]),
    )
    (check,) = (each for each in diagnose(facts).checks if each.name == "file servers")
    assert (check.level, check.found) == (level, found)


def test_an_installation_that_works_is_said_to_in_a_line_for_each_check():
    diagnosis = diagnose(WELL)
    assert list(render_checks(diagnosis.checks)) == [
        "ok        apiserver: Kubernetes v1.35.0 answers",
        "ok        CRD: kind NodeSet of sunkpy.dev/v1alpha1 is served",
        "ok        your rights: you have all 2 rights that the checks need",
        "ok        admission policies: 1 policy, each bound; all deny",
        "ok        system classes: everybody may create pods with a system priority class: "
        "restrictCriticalPods is false",
        "ok        file servers: slurmd and login pods have homes and shared folders without a claim",
        "ok        processes: 3 pods ready",
        "ok        replicas: 5 Deployments and StatefulSets, none lacks a pod",
        "ok        versions: one image tag: 0.1.0; this command is 0.1.0",
        "ok        leaders: 1 Lease held and renewed",
        "ok        keys: pods need 1 Secret, and none is missing (only names were read)",
        "ok        hooks: slurm/slurm-hooks has 2 ready endpoints; run doctor with --exec to try the address itself",
        "ok        backups: 2 CronJobs, the last run of each succeeded",
        "ok        volumes: 3 volumes; slurm-backup is 85% full",
        "ok        slurmrestd: Slurm 24.11.5 (c1), API v0.0.42, 2 nodes",
        "ok        NodeSets: 1 NodeSet without a problem",
        "ok        slurmd pods: 2 slurmd pods ready",
        "ok        clocks: 2 Nodes of NodeSets agree with this machine within 5 s",
    ]
    assert diagnosis.exit_code == 0


REFUSED = HooksFound(url="http://slurm-hooks:8000", error="GET http://slurm-hooks:8000/hooks/v1/gate: refused")
ANSWERS = HooksFound(url="http://slurm-hooks:8000")
NO_ENDPOINT = HooksFound(ready={"slurm/slurm-hooks": 0})


@pytest.mark.parametrize(
    ("here", "inside", "level", "found"),
    [
        (WELL.hooks, ANSWERS, "ok", "http://slurm-hooks:8000 answers"),
        (WELL.hooks, REFUSED, "failed", REFUSED.error),
        (None, REFUSED, "failed", REFUSED.error),
        (WELL.hooks, None, "ok", "slurm/slurm-hooks has 2 ready endpoints; run doctor with --exec to try the address"),
        (NO_ENDPOINT, ANSWERS, "failed", "no endpoint is ready behind slurm/slurm-hooks"),
    ],
)
def test_what_the_address_of_the_hooks_says_inside_counts(here, inside, level, found):
    own, theirs = (diagnose(msgspec.structs.replace(WELL, hooks=each)) for each in (here, inside))
    (check,) = [check for check in own.filled_by(theirs).checks if check.name == "hooks"]
    assert (check.level, check.found.removesuffix(" itself")) == (level, found)


def test_other_checks_of_the_inside_only_fill_what_was_skipped_here():
    theirs = diagnose(msgspec.structs.replace(WELL, has_nodeset_kind=False, rights={"list nodes": False}))
    assert diagnose(WELL).filled_by(theirs).exit_code == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"volumes": ()}, "nothing measures how full they are; see volumeMetrics of chart slurm"),
        ({"volumes": (VolumesOfPod(pod="p"),)}, "0 volumes"),
        (
            {"volumes": (VolumesOfPod(pod="p", is_closed=True),)},
            "only Prometheus may read how full they are (metricsSecret); see its alerts",
        ),
        (
            {
                "volumes": (VolumesOfPod(pod="p", used={"a": 0.1}, job_state_saved=0),),
                "slurm": SlurmFound(release="24.11"),
            },
            "1 volume; a is 10% full",
        ),
    ],
    ids=["nobody measures", "nothing is measured", "a token is needed", "slurmctld is down"],
)
def test_of_volumes_that_nobody_has_to_look_at_it_is_said_what_is_known(change, says):
    checks = {check.name: check for check in diagnose(msgspec.structs.replace(WELL, **change)).checks}
    assert (checks["volumes"].level, checks["volumes"].found) == ("ok", says)


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (("", ""), "2 CronJobs, none has ended a run yet"),
        (("2026-11-24T03:17:00Z", ""), "2 CronJobs, 1 without a run yet, the last runs of the others succeeded"),
    ],
)
def test_a_new_installation_is_not_said_to_have_backups(last, says):
    new = tuple(backup(f"b{number}", last_success=success) for number, success in enumerate(last))
    checks = render_checks(diagnose(msgspec.structs.replace(WELL, backups=new)).checks)
    assert f"ok        backups: {says}" in checks


def test_the_bounds_are_those_of_the_alerts():
    alerts = yaml.safe_load((ROOT / "charts/slurm/files/alerts.yaml").read_text())
    exprs = {each["alert"]: each["expr"] for each in alerts}
    assert f"> {FILLING}" in exprs["SlurmVolumeFilling"]
    assert f"> {NOT_SAVED_S:.0f} and" in exprs["SlurmStateNotSaved"]


def job(state="COMPLETED", exit_code=0, **known):
    """A canary job that ended on n1, and is in slurmdbd as it is in slurmctld."""
    ended = SlurmJob(id=7, state=frozenset({state}), nodes=("n1",), exit_code=exit_code)
    record = JobRecord(state=ended.state, nodes=ended.nodes)
    return CanaryJob(**{"took_s": 2.4, "job": ended, "record": record} | known)


RAN = {
    "tries": True,
    "canary_job": job(),
    "canary_pod": Canary(took_s=4),
    "slurm": SlurmFound(release="24.11.5", is_up=True, gpus=4),
}


def seen(what):
    return RAN | {"canary_job": job("FAILED", what)}


TROUBLES = {
    "old Kubernetes": ({"server_version": "v1.33.3"}, "apiserver", "failed", "Kubernetes v1.33.3"),
    "no CRD": (
        {"has_nodeset_kind": False}, "CRD", "failed", "the apiserver knows no kind NodeSet of sunkpy.dev/v1alpha1",
    ),
    "a right is missing": (
        {"rights": {"list nodes": False, "list pods": True}}, "your rights", "warning", "you may not list nodes",
    ),
    "no policy": ({"policies": ()}, "admission policies", "failed", "there is no admission policy of sunkpy"),
    "a policy without a binding": ({"bindings": ()}, "admission policies", "failed", "not bound: slurm-notes"),
    "a policy that only warns": (
        {"bindings": (binding("Warn", "Audit"),)}, "admission policies", "failed", "not bound: slurm-notes",
    ),
    "a process is not ready": (
        {"processes": (our_pod("scheduler", ready=False),)}, "processes", "failed", "not ready: slurm/slurm-scheduler",
    ),
    "nothing is installed": ({"processes": ()}, "processes", "failed", "no pod of the charts was found"),
    "a process is scaled to 0 and forgotten": (
        deployed(ours("syncer", wanted=0, ready=0)),
        "replicas", "warning", "scaled to 0: Deployment slurm/slurm-syncer",
    ),
    "a quota refuses a pod": (
        deployed(ours("syncer", ready=0), ours("scheduler", wanted=2)), "replicas", "failed",
        "pods are missing or not ready: Deployment slurm/slurm-syncer (0 of 1), "
        "Deployment slurm/slurm-scheduler (1 of 2)",
    ),
    "a login pod is missing": (
        deployed(ours("login", ready=0)), "replicas", "failed",
        "pods are missing or not ready: Deployment slurm/slurm-login (0 of 1)",
    ),
    "nothing makes pods": (
        {"our_workloads": {"Deployment": (), "StatefulSet": ()}, "nodesets": ()},
        "replicas", "failed", "there is no Deployment or StatefulSet of the charts",
    ),
    "nobody acts on NodeSets": (
        {"our_workloads": {"Deployment": (ours("syncer"),)}},
        "NodeSets", "failed", "no operator is installed, and 1 NodeSet waits for one",
    ),
    "two versions": (
        {"processes": (our_pod("scheduler"), our_pod("operator", tag="0.2.0"))},
        "versions", "warning", "0.1.0: scheduler; 0.2.0: operator",
    ),
    "nobody leads": ({"leases": (lease(holder=""),)}, "leaders", "failed", "slurm/slurm-scheduler has no holder"),
    "the leader is dead": (
        {"leases": (lease(renewed="2026-11-24T02:59:00Z"),)},
        "leaders", "failed", "slurm/slurm-scheduler has not been renewed since 2026-11-24T02:59:00Z",
    ),
    "no lease": ({"leases": ()}, "leaders", "failed", "no Lease of sunkpy's processes was found"),
    "a key is lost": (
        {"secrets": {"slurm/slurm-jwt-key": False, "slurm/slurm-key": True}},
        "keys", "failed", "missing: slurm/slurm-jwt-key",
    ),
    "nobody answers hooks": (
        {"hooks": HooksFound(ready={"slurm/slurm-hooks": 0})},
        "hooks", "failed", "no endpoint is ready behind slurm/slurm-hooks",
    ),
    "the hooks' address does not answer": (
        {"hooks": HooksFound(url="http://x", error="GET http://x: refused")},
        "hooks", "failed", "GET http://x: refused",
    ),
    "a backup failed": (
        {"backups": (backup("backup"), backup("state-backup", "the volume is full"))},
        "backups", "failed", "slurm/slurm-state-backup: the volume is full",
    ),
    "nobody makes backups": (
        {"backups": ()}, "backups", "warning", "no CronJob of the charts makes backups",
    ),
    "a volume is full": (
        {"volumes": (VolumesOfPod(pod="p", used={"a": 0.1, "slurm-backup": 0.97}),)},
        "volumes", "failed", "volume slurm-backup is 97% full",
    ),
    "slurmctld saves nothing": (
        {"volumes": (VolumesOfPod(pod="p", used={"a": 0.1}, job_state_saved=NOW.timestamp() - 1230),)},
        "volumes", "failed", "slurmctld has not saved its jobs for 20 min",
    ),
    "Slurm refuses the token": (
        {"slurm": SlurmFound(error="read the nodes: bad token")}, "slurmrestd", "failed", "read the nodes: bad token",
    ),
    "slurmctld is away": (
        {"slurm": SlurmFound(release="24.11.5")}, "slurmrestd", "failed", "slurmrestd answers, slurmctld does not",
    ),
    "the operator is behind": (
        {"nodesets": (nodeset(generation=3),)},
        "NodeSets", "failed", "the operator has not seen the last change of slurm/gpu",
    ),
    "a NodeSet is stuck": (
        {"nodesets": (nodeset(*(
            Condition(type=type_, status="False", reason="CreateFailed", message="quota")
            for type_ in ("Progressing", "Ready", "Stalled")
        )),)},
        "NodeSets", "failed", "slurm/gpu: CreateFailed: quota",
    ),
    "chart and operator do not fit": (
        {"nodesets": (nodeset(Condition(type="VersionSkew", status="True", reason="VersionSkew", message="0.2")),)},
        "NodeSets", "failed", "slurm/gpu: VersionSkew: 0.2",
    ),
    "jobs share their /tmp": (
        {"nodesets": (nodeset(Condition(type="SharedTmp", status="True", reason="SharedTmp", message="of a value")),)},
        "NodeSets", "warning", "slurm/gpu: SharedTmp: of a value",
    ),
    "too few nodes fit": (
        {"nodesets": (nodeset(Condition(type="Feasible", status="False", reason="TooFewNodes", message="1 of 2")),)},
        "NodeSets", "failed", "slurm/gpu: TooFewNodes: 1 of 2",
    ),
    "a slurmd pod is not ready": (
        {"slurmd_pods": (ready_slurmd(1), ready_slurmd(2, ready=False))},
        "slurmd pods", "failed", "1 of 2 not ready: slurm/gpu-2",
    ),
    "a clock is ahead": (
        {"heartbeats": WELL.heartbeats | {"node-1": "2026-11-24T03:01:00Z"}},
        "clocks", "failed", "node-1 is 60 s ahead",
    ),
    "a clock is behind": (
        {"heartbeats": WELL.heartbeats | {"node-1": "2026-11-24T02:50:00Z"}},
        "clocks", "failed", "node-1 is 600 s behind, or its kubelet is slow",
    ),
    "our own clock is behind": (
        {"heartbeats": dict.fromkeys(WELL.heartbeats, "2026-11-24T03:01:00Z")},
        "clocks", "warning", "all 2 Nodes are ahead of this machine by 60 s or more",
    ),
    "a canary pod died": (
        RAN | {"canary_pod": Canary(error="pod x failed")}, "canary pod", "failed", "pod x failed",
    ),
    "a canary pod could not be removed": (
        RAN | {"canary_pod": Canary(took_s=4, left="DELETE pod: no right")},
        "canary pod", "warning", "a pod ran in 4 s, and could not be removed: DELETE pod: no right",
    ),
    "a canary job that waits could not be cancelled": (
        RAN | {"canary_job": CanaryJob(error="job 7 waits", left="cancel job 7: no")},
        "canary job", "failed", "job 7 waits; it could not be removed: cancel job 7: no",
    ),
    "a canary job waits": (
        RAN | {"canary_job": CanaryJob(error="job 7 has not ended within 9 s: Resources")},
        "canary job", "failed", "job 7 has not ended within 9 s: Resources",
    ),
    "a job sees the GPUs of others": (
        seen(Seen.OTHERS_DEVICES),
        "devices of a job", "warning", "job 7 on n1: it may open device files of GPUs that are not its own",
    ),
    "a job has no GPU of the one that it got": (
        seen(Seen.NOT_ITS_DEVICE),
        "devices of a job", "failed", "job 7 on n1: it may not open the device file of its GPU",
    ),
    "nobody gets a GPU by default": (
        RAN | {"canary_job": job(no_gpu="submit job x: no")},
        "devices of a job", "warning", "the canary job got no GPU: submit job x: no",
    ),
    "slurmdbd knows another end": (
        RAN | {"canary_job": job(record=JobRecord(state=frozenset({"RUNNING"}), nodes=("n1",)))},
        "accounting", "failed", "slurmctld has job 7 as COMPLETED on n1, slurmdbd as RUNNING on n1",
    ),
    "slurmdbd knows another node": (
        RAN | {"canary_job": job(record=JobRecord(state=frozenset({"COMPLETED"})))},
        "accounting", "failed", "slurmctld has job 7 as COMPLETED on n1, slurmdbd as COMPLETED on no node",
    ),
    "slurmdbd knows nothing": (
        RAN | {"canary_job": job(record=None)}, "accounting", "failed", "slurmdbd does not know job 7",
    ),
    "slurmdbd is away": (
        RAN | {"canary_job": job(record=None, no_record="read job 7 of slurmdbd: no")},
        "accounting", "failed", "read job 7 of slurmdbd: no",
    ),
}  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES)
def test_each_trouble_is_found_with_what_to_do(trouble):
    changed, name, level, found = TROUBLES[trouble]
    diagnosis = diagnose(msgspec.structs.replace(WELL, **changed))
    (check,) = [check for check in diagnosis.checks if check.level != "ok" and check.name == name]
    assert (check.level, check.found) == (level, found)
    assert check.what_to_do
    assert check.tried
    assert diagnosis.exit_code == (2 if level == "failed" else 1)


def test_what_to_set_is_a_value_of_the_chart():
    diagnosis = diagnose(msgspec.structs.replace(WELL, hooks=HooksFound()))
    (check,) = [check for check in diagnosis.checks if check.level != "ok"]
    assert check.what_to_do == "Install chart slurm with scheduler.enabled, or ignore this if you want no scheduler."
    value = yaml.safe_load((ROOT / "charts/slurm/values.yaml").read_text())
    for key in re.search(r"with ([\w.]+)", check.what_to_do)[1].split("."):
        value = value[key]


def test_without_a_nodeset_the_namespace_may_be_wrong():
    (check,) = [check for check in diagnose(msgspec.structs.replace(WELL, nodesets=())).checks if check.level != "ok"]
    assert check.what_to_do == "Install chart slurm. If it is in another namespace, name that: -n."


def test_a_node_that_is_lost_has_no_wrong_clock():
    lost = msgspec.structs.replace(
        WELL,
        nodes=(in_nodeset(1, ready=False), in_nodeset(2)),
        heartbeats=WELL.heartbeats | {"node-1": "2026-11-24T01:00:00Z"},
    )
    assert diagnose(lost).exit_code == 0


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_and_has_a_successor_is_no_trouble(phase):
    ended = msgspec.structs.replace(our_pod("scheduler", ready=False), status=PodStatus(phase=phase))
    assert diagnose(msgspec.structs.replace(WELL, processes=(*WELL.processes, ended))).exit_code == 0


@pytest.mark.parametrize(
    "field",
    ["has_nodeset_kind", "rights", "policies", "bindings", "workloads", "shared", "nodes", "heartbeats", "nodesets",
     "slurmd_pods", "processes", "our_workloads", "leases", "hooks", "secrets", "slurm"],
)  # fmt: skip
def test_what_could_not_be_read_is_skipped_with_why(field):
    diagnosis = diagnose(msgspec.structs.replace(WELL, **{field: None}, unread={field: "forbidden to you"}))
    skipped = [check for check in diagnosis.checks if check.level == "skipped"]
    assert {check.found for check in skipped} == {"forbidden to you"}
    assert diagnosis.exit_code == 1


def test_without_an_apiserver_that_is_the_failure():
    diagnosis = diagnose(Installation(now=NOW, unread={"server_version": "GET /version: no answer"}))
    assert [check.name for check in diagnosis.checks if check.level == "failed"] == ["apiserver"]
    assert diagnosis.exit_code == 2


def test_what_is_not_well_says_what_was_tried_and_what_to_do():
    lines = list(render_checks(diagnose(msgspec.structs.replace(WELL, has_nodeset_kind=False)).checks))
    assert lines[1:4] == [
        "failed    CRD: the apiserver knows no kind NodeSet of sunkpy.dev/v1alpha1",
        "          tried: asked the apiserver which kinds it serves",
        "          do: Install chart sunkpy, which brings the CRD.",
    ]


def of_canaries(**changed):
    ran = msgspec.structs.replace(WELL, **RAN | changed)
    return list(render_checks(diagnose(ran).checks))[-4:]


def test_what_a_canary_job_saw_and_left_is_told():
    assert of_canaries() == [
        "ok        canary job: a job ran in 2 s",
        "ok        devices of a job: job 7 on n1 saw the one GPU that Slurm gave it, in variables and device files",
        "ok        accounting: slurmctld and slurmdbd have job 7 as COMPLETED on n1",
        "ok        canary pod: a pod ran in 4 s",
    ]
    without = of_canaries(canary_job=job(record=None, is_accounted=False), slurm=SlurmFound(is_up=True))
    assert without[1:3] == [
        "ok        devices of a job: Slurm has no GPUs here",
        "ok        accounting: accounting is off: slurmrestd has no slurmdbd to ask",
    ]


@pytest.mark.parametrize(
    ("changed", "found"),
    [({"slurm": None}, "it was not read"), ({"canary_job": CanaryJob(error="no")}, "the canary job did not run")],
)
def test_what_only_a_job_can_show_is_skipped_without_one(changed, found):
    checks = diagnose(msgspec.structs.replace(WELL, **RAN | changed)).checks
    skipped = {check.name: check.found for check in checks if check.level == "skipped"}
    assert (skipped["devices of a job"], skipped["accounting"]) == (found, found)


OTHERS = {
    "DaemonSet": (workload("gpu-operator", "driver"), workload("kube-system", "kube-proxy"), workload("a", "b", "")),
    "Deployment": (workload("rook", "operator", "system-cluster-critical"),),
}
WHO = "unless their creator may create pods/binding: DaemonSet gpu-operator/driver, Deployment rook/operator"


@pytest.mark.parametrize("values", [{}, {"restrictCriticalPods": "warn", "criticalNamespaces": ["ceph"]}])
def test_who_would_be_refused_a_system_class_is_listed_before_anybody_is(values):
    lines = list(render_checks(diagnose(with_system_classes(**values)).checks))
    at = lines.index(f"warning   system classes: restrictCriticalPods: true would refuse, {WHO}")
    assert lines[at - 1] == (
        "ok        admission policies: 2 policies, each bound; all deny "
        "except research-demo-operator-critical-pods, which only warns"
    )
    assert lines[at + 2] == (
        "          do: List the namespaces that you trust in criticalNamespaces of chart sunkpy: then such pods are "
        "refused in all others; now there is only a warning."
    )


@pytest.mark.parametrize("values", [{"restrictCriticalPods": True}, {"criticalNamespaces": ["ceph"]}])
def test_a_policy_that_denies_system_classes_still_says_whom(values):
    facts = with_system_classes(**values)
    assert f"ok        system classes: restrictCriticalPods refuses, {WHO}" in render_checks(diagnose(facts).checks)


def test_nobody_is_listed_where_all_that_have_a_system_class_are_trusted():
    facts = with_system_classes(criticalNamespaces=["gpu-operator", "rook"])
    line = "ok        system classes: only workloads that restrictCriticalPods allows have a system priority class"
    assert line in render_checks(diagnose(facts).checks)


def test_an_image_by_digest_is_of_the_version_that_its_tag_says():
    by_digest = msgspec.structs.replace(
        WELL, processes=(our_pod("scheduler", tag="0.1.0@sha256:1a2b"), our_pod("operator", tag="0.1.0"))
    )
    lines = render_checks(diagnose(by_digest).checks)
    assert "ok        versions: one image tag: 0.1.0; this command is 0.1.0" in lines
