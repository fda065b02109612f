"""The checks of `kubectl sunk doctor`: each says what it tried, what it found, and what to do."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.accounts.records import JobRecord
from sunkpy.core.model.objects import Condition
from sunkpy.core.model.states import SlurmJob
from sunkpy.core.model.times import parse_rfc3339
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.installation import Canary, CanaryJob, Installation, OurWorkload, Seen
from sunkpy.core.overview.table import count, first_of, printable
from sunkpy.core.overview.volumes import volume_problems

AHEAD_S: Final = 5.0
"""How far a Node's clock may be ahead without harm: Slurm's tokens are valid from a moment before they are made."""
SILENT_S: Final = 40.0
"""The age at which a kubelet's Lease is too old. A kubelet renews its Lease each 10 s; Kubernetes calls a Node not
ready after 40 s without that (node-monitor-grace-period).
"""
OLDEST: Final = (1, 34)
"""The oldest version of Kubernetes that the charts support."""
_SHOWN: Final = 5
_HOOKS: Final = "hooks"
_ASK_AGAIN: Final = "Run doctor as somebody who may read this; with --exec, it also looks from the scheduler's pod."
_SEE_APISERVER: Final = "See that the kubeconfig is right and the apiserver is up: kubectl version."
_OVER: Final = ("Succeeded", "Failed")
_STUCK: Final = frozenset({"CreateFailed", "PodsFailed", "BadSpec"})
_PROCESSES: Final = frozenset({"operator", "syncer", "scheduler", "accounts", "logins"})


class Level(enum.StrEnum):
    """How a check of `kubectl sunk doctor` ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one check: what was tried, what was found, and what to do."""

    name: str
    tried: str
    level: Level = Level.OK
    found: str = ""
    what_to_do: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `kubectl sunk doctor`: the results of all checks."""

    checks: tuple[Check, ...]

    def filled_by(self, other: Diagnosis) -> Diagnosis:
        """Return these results, with skipped checks replaced by those of `other`, which ran in the scheduler's pod. The
        check of the hooks is replaced also if all was well here: only there the address itself was tried.
        """
        theirs = {check.name: check for check in other.checks if check.level is not Level.SKIPPED}

        def is_open(own: Check) -> bool:
            return own.level is Level.SKIPPED or (own.name == _HOOKS and own.level is Level.OK)

        return Diagnosis(checks=tuple(theirs.get(own.name, own) if is_open(own) else own for own in self.checks))

    @property
    def exit_code(self) -> int:
        """The exit code. 0: all is well. 1: some check warns or was skipped. 2: some check failed."""
        levels = {check.level for check in self.checks}
        return 2 if Level.FAILED in levels else 1 if levels - {Level.OK} else 0


class _Verdict(msgspec.Struct, frozen=True):
    """What a check found, and what to do. An empty `what_to_do` means that all is well, whatever the level."""

    found: str
    what_to_do: str = ""
    level: Level = Level.FAILED


def diagnose(facts: Installation) -> Diagnosis:
    """Return the results of all checks of an installation. A check is skipped if what it needs was not read; only the
    check of the apiserver then fails. Checks that need a test job or test pod (a canary) are left out unless the person
    asked for that.
    """
    return Diagnosis(checks=tuple(_check(facts, rule) for rule in _RULES if _is_asked(facts, rule)))


class _Rule(msgspec.Struct, frozen=True):
    """One check of `kubectl sunk doctor`. `needs`: the fields of `Installation` that `judge` reads."""

    name: str
    tried: str
    needs: tuple[str, ...]
    judge: Callable[[Installation], _Verdict]


def _is_asked(facts: Installation, rule: _Rule) -> bool:
    return facts.tries or not {"canary_job", "canary_pod"} & {*rule.needs}


def _check(facts: Installation, rule: _Rule) -> Check:
    missing = next((field for field in rule.needs if getattr(facts, field) is None), None)
    if missing is not None:
        is_down = missing == "server_version"
        what_to_do, level = (_SEE_APISERVER, Level.FAILED) if is_down else (_ASK_AGAIN, Level.SKIPPED)
        verdict = _Verdict(facts.unread.get(missing, "it was not read"), what_to_do, level)
    else:
        verdict = rule.judge(facts)
    level = verdict.level if verdict.what_to_do else Level.OK
    return Check(name=rule.name, tried=rule.tried, level=level, found=verdict.found, what_to_do=verdict.what_to_do)


# --------------------------------------------------------------------------------------------------------- Kubernetes


def _apiserver(facts: Installation) -> _Verdict:
    version = facts.server_version or ""
    major, minor, *_ = (*version.lstrip("v").split("."), "", "")
    known = (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
    if known is not None and known < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return _Verdict(f"Kubernetes {version}", f"Upgrade Kubernetes: the charts need {oldest} or newer.")
    return _Verdict(f"Kubernetes {version} answers")


def _crd(facts: Installation) -> _Verdict:
    kind = f"{names.NODESET_KIND} of {names.API_GROUP}/{names.API_VERSION}"
    if not facts.has_nodeset_kind:
        return _Verdict(f"the apiserver knows no kind {kind}", "Install chart sunkpy, which brings the CRD.")
    return _Verdict(f"kind {kind} is served")


def _rights(facts: Installation) -> _Verdict:
    missing = sorted(right for right, may in (facts.rights or {}).items() if not may)
    if missing:
        text = f"you may not {first_of(missing, len(missing))}"
        return _Verdict(text, "Run doctor as an admin to make the checks that are skipped.", Level.WARNING)
    return _Verdict(f"you have all {len(facts.rights or {})} rights that the checks need")


def _policies(facts: Installation) -> _Verdict:
    ours = {policy.name: policy for policy in facts.policies or ()}
    if not ours:
        return _Verdict("there is no admission policy of sunkpy", "Install charts sunkpy and slurm with policies.")
    not_denying = ours.keys() - _denying(facts)
    warning = {name for name in not_denying if ours[name].is_of_system_classes and name in _bound(facts)}
    if unbound := sorted(not_denying - warning):
        what_to_do = (
            "helm upgrade the release that has the policy: without a binding that denies, the policy refuses nothing."
        )
        return _Verdict(f"not bound: {first_of(unbound, _SHOWN)}", what_to_do)
    which = f"all deny except {first_of(warning, _SHOWN)}, which only warns" if warning else "all deny"
    return _Verdict(f"{count(len(ours), 'policy', 'policies')}, each bound; {which}")


def _bound(facts: Installation) -> set[str]:
    return {each.spec.policy_name for each in facts.bindings or ()}


def _denying(facts: Installation) -> set[str]:
    return {each.spec.policy_name for each in facts.bindings or () if "Deny" in each.spec.validation_actions}


def _system_classes(facts: Installation) -> _Verdict:
    """Check which workloads outside of the exempted namespaces have a system priority class. Who creates their pods is
    not known, although the policy asks that, too.
    """
    policy = next((each for each in facts.policies or () if each.is_of_system_classes), None)
    if policy is None:
        return _Verdict("everybody may create pods with a system priority class: restrictCriticalPods is false")
    others = [
        f"{kind} {'/'.join(each.key)}"
        for kind, workloads in (facts.workloads or {}).items()
        for each in workloads
        if each.is_of_system_class and each.metadata.namespace not in policy.named_namespaces
    ]
    if not others:
        return _Verdict("only workloads that restrictCriticalPods allows have a system priority class")
    unless = "unless their creator may create pods/binding"
    if policy.name in _denying(facts):
        return _Verdict(f"restrictCriticalPods refuses, {unless}: {first_of(sorted(others), _SHOWN)}")
    what_to_do = (
        "List the namespaces that you trust in criticalNamespaces of chart sunkpy: then such pods are refused in all "
        "others; now there is only a warning."
    )
    found = f"restrictCriticalPods: true would refuse, {unless}: {first_of(sorted(others), _SHOWN)}"
    return _Verdict(found, what_to_do, Level.WARNING)


def _file_servers(facts: Installation) -> _Verdict:
    """Check that pods cannot mount directly the NFS servers which are behind claims of homes and shared folders; see
    docs/rights.md.
    """
    if not facts.shared:
        return _Verdict("slurmd and login pods have homes and shared folders without a claim")
    servers = {each.nfs_server: each.name for each in facts.shared if each.nfs_server}
    denying = [policy for policy in facts.policies or () if policy.name in _denying(facts)]
    if unprotected := sorted(server for server in servers if not any(each.refuses_server(server) for each in denying)):
        found = [f"{server} (PersistentVolume {servers[server]})" for server in unprotected]
        what_to_do = (
            "Name them in home.protect.servers of chart slurm: a pod that mounts them can read all homes as root. Name "
            "namespaces whose pods have to mount them, such as that of a provisioner, in home.protect.namespaces."
        )
        return _Verdict(f"every pod may mount {first_of(found, _SHOWN)}", what_to_do, Level.WARNING)
    if silent := sorted(each.name for each in facts.shared if not each.nfs_server):
        return _Verdict(f"no NFS server is named by PersistentVolume {first_of(silent, _SHOWN)}")
    return _Verdict(f"{count(len(servers), 'NFS server')} behind claims, which no pod may mount by itself")


def _clocks(facts: Installation) -> _Verdict:
    ages = {name: _age_s(facts.now, at) for name, at in (facts.heartbeats or {}).items()}
    ours = {node.name: node for node in facts.nodes or () if names.LABEL_NODESET in node.labels}
    known = {name: age for name in ours if (age := ages.get(name)) is not None}
    ahead = {name: -age for name, age in known.items() if age < -AHEAD_S}
    behind = {name: age for name, age in known.items() if ours[name].is_ready and age > SILENT_S}
    if ahead and len(ahead) == len(known):
        seconds = min(ahead.values())
        text = f"all {count(len(ahead), 'Node')} are ahead of this machine by {seconds:.0f} s or more"
        return _Verdict(text, "Set this machine's clock, and run doctor again.", Level.WARNING)
    if ahead or behind:
        texts = [f"{name} is {seconds:.0f} s ahead" for name, seconds in ahead.items()]
        texts += [f"{name} is {seconds:.0f} s behind, or its kubelet is slow" for name, seconds in behind.items()]
        what_to_do = (
            "See that time synchronisation runs on these Nodes: Slurm refuses messages from a machine whose clock "
            "is wrong."
        )
        return _Verdict(first_of(texts, _SHOWN), what_to_do)
    return _Verdict(f"{count(len(known), 'Node')} of NodeSets agree with this machine within {AHEAD_S:.0f} s")


def _age_s(now: datetime, at: str) -> float | None:
    try:
        return (now - parse_rfc3339(at)).total_seconds()
    except (ValueError, TypeError):
        return None


# ------------------------------------------------------------------------------------------------------------- sunkpy


def _processes(facts: Installation) -> _Verdict:
    pods = facts.processes or ()
    if not pods:
        return _Verdict("no pod of the charts was found", "Install charts sunkpy and slurm, or give the namespace: -n.")
    unready = sorted("/".join(pod.key) for pod in pods if not pod.is_ready and pod.status.phase not in _OVER)
    if unready:
        return _Verdict(f"not ready: {first_of(unready, _SHOWN)}", "kubectl describe these pods, and read their logs.")
    return _Verdict(f"{count(len(pods), 'pod')} ready")


def _replicas(facts: Installation) -> _Verdict:
    """Check that no Deployment or StatefulSet lacks a pod: the pods alone do not show one that was never made."""
    ours = [(f"{kind} {'/'.join(each.key)}", each) for kind, each in _our_workloads(facts)]
    if not ours:
        what_to_do = "Install charts sunkpy and slurm, or give the namespace: -n."
        return _Verdict("there is no Deployment or StatefulSet of the charts", what_to_do)
    off = [name for name, each in ours if each.is_off]
    short = [
        f"{name} ({each.status.ready_replicas} of {each.spec.replicas})"
        for name, each in ours
        if each.status.ready_replicas < each.spec.replicas
    ]
    found = [f"scaled to 0: {first_of(off, _SHOWN)}"] if off else []
    found += [f"pods are missing or not ready: {first_of(short, _SHOWN)}"] if short else []
    if found:
        what_to_do = (
            "Scale up what is at 0: kubectl scale. If a pod is missing, kubectl get events in its namespace says why, "
            "such as a quota or an admission policy."
        )
        # Values may ask for 0; whether somebody misses the process, other checks say.
        return _Verdict("; ".join(found), what_to_do, Level.FAILED if short else Level.WARNING)
    return _Verdict(
        f"{count(len(ours), 'Deployment or StatefulSet', 'Deployments and StatefulSets')}, none lacks a pod"
    )


def _our_workloads(facts: Installation) -> Iterator[tuple[str, OurWorkload]]:
    for kind, found in (facts.our_workloads or {}).items():
        for each in found:
            yield kind, each


def _versions(facts: Installation) -> _Verdict:
    ours = [pod for pod in facts.processes or () if pod.component in _PROCESSES]
    tags: dict[str, list[str]] = {}
    for pod in ours:
        for container in pod.spec.containers[:1]:
            ref = container.image.partition("@")[0]
            tags.setdefault(ref.rpartition(":")[2], []).append(pod.component)
    if len(tags) > 1:
        texts = (f"{tag}: {', '.join(sorted(set(parts)))}" for tag, parts in sorted(tags.items()))
        what_to_do = "Upgrade all charts to the same version; during an upgrade, wait until it has ended."
        return _Verdict("; ".join(texts), what_to_do, Level.WARNING)
    return _Verdict(f"one image tag: {next(iter(tags), 'none')}; this command is {facts.own_version}")


def _leaders(facts: Installation) -> _Verdict:
    leases = facts.leases or ()
    dead = []
    for lease in leases:
        age, limit_s = _age_s(facts.now, lease.spec.renew_time or ""), lease.spec.lease_duration_seconds or 0
        if not lease.spec.holder_identity:
            dead.append(f"{'/'.join(lease.key)} has no holder")
        elif age is None or age > 2 * limit_s:
            dead.append(f"{'/'.join(lease.key)} has not been renewed since {lease.spec.renew_time}")
    if dead or not leases:
        text = first_of(dead, _SHOWN) or "no Lease of sunkpy's processes was found"
        return _Verdict(text, "See that the pods of these processes run, and what they log.")
    return _Verdict(f"{count(len(leases), 'Lease')} held and renewed")


def _hooks(facts: Installation) -> _Verdict:
    assert facts.hooks is not None
    ready, url = facts.hooks.ready, facts.hooks.url
    what_to_do = "See that a scheduler leads: Prologs and Epilogs on nodes wait until it answers."
    if url:
        return _Verdict(facts.hooks.error, what_to_do) if facts.hooks.error else _Verdict(f"{url} answers")
    if empty := sorted(name for name, endpoints in ready.items() if not endpoints):
        return _Verdict(f"no endpoint is ready behind {', '.join(empty)}", what_to_do)
    if not ready:
        what_to_do = "Install chart slurm with scheduler.enabled, or ignore this if you want no scheduler."
        return _Verdict("there is no Service for the scheduler's hooks", what_to_do)
    endpoints = count(sum(ready.values()), "ready endpoint")
    return _Verdict(f"{', '.join(ready)} has {endpoints}; run doctor with --exec to try the address itself")


def _secrets(facts: Installation) -> _Verdict:
    secrets = facts.secrets or {}
    if missing := sorted(name for name, is_there in secrets.items() if not is_there):
        what_to_do = "Restore them from a backup before anything makes new ones: docs/tasks/keys.md."
        return _Verdict(f"missing: {first_of(missing, _SHOWN)}", what_to_do)
    return _Verdict(f"pods need {count(len(secrets), 'Secret')}, and none is missing (only names were read)")


def _backups(facts: Installation) -> _Verdict:
    backups = facts.backups or ()
    if not backups:
        what_to_do = "Enable slurmctld.backup and accounting.backup of chart slurm, unless you make backups yourself."
        return _Verdict("no CronJob of the charts makes backups", what_to_do, Level.WARNING)
    if bad := [f"{each.namespace}/{each.cron_job}: {each.problem}" for each in backups if each.problem]:
        what_to_do = "Run sunkpy backups, and see section Backups are late in docs/troubleshooting.md."
        return _Verdict(first_of(bad, _SHOWN), what_to_do)
    new = sum(not each.last_success for each in backups)
    if new == len(backups):
        how = "none has ended a run yet"
    elif new:
        how = f"{new} without a run yet, the last runs of the others succeeded"
    else:
        how = "the last run of each succeeded"
    return _Verdict(f"{count(len(backups), 'CronJob')}, {how}")


def _volumes(facts: Installation) -> _Verdict:
    watched = facts.volumes or ()
    if not watched:
        return _Verdict("nothing measures how full they are; see volumeMetrics of chart slurm")
    if any(each.is_closed for each in watched):
        return _Verdict("only Prometheus may read how full they are (metricsSecret); see its alerts")
    is_up = facts.slurm is None or (facts.slurm.is_up and not facts.slurm.error)
    if problems := list(volume_problems(watched, facts.now.timestamp(), is_up=is_up)):
        return _Verdict(first_of(problems, _SHOWN), "See section A volume fills up in docs/troubleshooting.md.")
    used = sorted((part, claim) for each in watched for claim, part in each.used.items())
    fullest = f"; {used[-1][1]} is {used[-1][0]:.0%} full" if used else ""
    return _Verdict(f"{count(len(used), 'volume')}{fullest}")


# -------------------------------------------------------------------------------------------------------------- Slurm


def _slurmrestd(facts: Installation) -> _Verdict:
    assert facts.slurm is not None
    if facts.slurm.error:
        return _Verdict(facts.slurm.error, "See that slurmrestd runs, and that the token or key is of this cluster.")
    if not facts.slurm.is_up:
        return _Verdict("slurmrestd answers, slurmctld does not", "See the log of slurmctld.")
    text = f"Slurm {facts.slurm.release} ({facts.slurm.cluster}), API {facts.slurm.api_version}"
    return _Verdict(f"{text}, {count(facts.slurm.nodes, 'node')}")


def _nodesets(facts: Installation) -> _Verdict:
    nodesets = facts.nodesets or ()
    if not nodesets:
        return _Verdict(
            "there is no NodeSet",
            "Install chart slurm. If it is in another namespace, name that: -n.",
        )
    has_operator = any(each.component == "operator" for _, each in _our_workloads(facts))
    if facts.our_workloads is not None and not has_operator:
        found = f"no operator is installed, and {count(len(nodesets), 'NodeSet')} waits for one"
        return _Verdict(found, "Install chart sunkpy.")
    unseen = ["/".join(n.key) for n in nodesets if n.status.observed_generation < n.metadata.generation]
    if unseen:
        what_to_do = "See that the operator leads, and what it logs."
        return _Verdict(f"the operator has not seen the last change of {first_of(unseen, _SHOWN)}", what_to_do)
    if stuck := list(_told(nodesets, _is_bad)):
        what_to_do = "kubectl describe the NodeSet; docs/reference/conditions.md explains each reason."
        return _Verdict(first_of(stuck, _SHOWN), what_to_do)
    if shared := list(_told(nodesets, _is_shared)):
        what_to_do = "See slurmConfig.privateTmp and cgroup of chart slurm, if each job is to have its own /tmp."
        return _Verdict(first_of(shared, _SHOWN), what_to_do, Level.WARNING)
    return _Verdict(f"{count(len(nodesets), 'NodeSet')} without a problem")


def _told(nodesets: Iterable[NodeSet], is_told: Callable[[Condition], bool]) -> Iterator[str]:
    for nodeset in nodesets:
        for condition in filter(is_told, nodeset.status.conditions):
            yield f"{'/'.join(nodeset.key)}: {condition.reason}: {condition.message}"


def _is_shared(condition: Condition) -> bool:
    return condition.type == "SharedTmp" and condition.status == "True"


def _is_bad(condition: Condition) -> bool:
    if condition.type in ("Available", "Feasible"):
        return condition.status == "False"
    if condition.type in ("RemovalHeld", "VersionSkew"):
        return condition.status == "True"
    return condition.type == "Progressing" and condition.reason in _STUCK


def _slurmd_pods(facts: Installation) -> _Verdict:
    pods = facts.slurmd_pods or ()
    unready = sorted("/".join(pod.key) for pod in pods if not pod.is_condition_true("Ready"))
    if unready:
        text = f"{len(unready)} of {len(pods)} not ready: {first_of(unready, _SHOWN)}"
        return _Verdict(text, "sunkpy why-drained says why their nodes are closed; then kubectl describe the pods.")
    return _Verdict(f"{count(len(pods), 'slurmd pod')} ready")


# ------------------------------------------------------------------------------------------------------------ canaries


def _canary_job(facts: Installation) -> _Verdict:
    return _canary("a job", facts.canary_job or Canary())


def _canary_pod(facts: Installation) -> _Verdict:
    return _canary("a pod", facts.canary_pod or Canary())


def _canary(what: str, canary: Canary) -> _Verdict:
    if canary.error:
        found = f"{canary.error}; it could not be removed: {canary.left}" if canary.left else canary.error
        return _Verdict(found, f"sunkpy explain and sunkpy queue say what {what} like this waits for.")
    ran = f"{what} ran in {canary.took_s:.0f} s"
    if canary.left:
        what_to_do = "Remove it yourself: kubectl delete pod, or scancel."
        return _Verdict(f"{ran}, and could not be removed: {canary.left}", what_to_do, Level.WARNING)
    return _Verdict(ran)


_DID_NOT_RUN: Final = _Verdict("the canary job did not run", "See the check canary job.", Level.SKIPPED)

_SEEN: Final[Mapping[int, tuple[str, str]]] = {
    Seen.NOT_ONE_GPU: ("it asked for one GPU, and SLURM_JOB_GPUS does not name one", "See gres.conf of its node."),
    Seen.OTHER_VARIABLE: (
        "it got one GPU, and CUDA_VISIBLE_DEVICES does not name one",
        "See the task prologs of the site, and Flags in gres.conf.",
    ),
    Seen.OTHERS_DEVICES: (
        "it may open device files of GPUs that are not its own",
        "Set slurmConfig.cgroup to auto, on nodes with cgroup v2: otherwise only variables keep a job to its GPUs.",
    ),
    Seen.NOT_ITS_DEVICE: (
        "it may not open the device file of its GPU",
        "See that the slurmd pod has the device, and delete the pod if its node was booted or repaired.",
    ),
    Seen.NO_LIST: ("its node has no list of device files", "See that its slurmd pod has the image of this chart."),
}


def _devices(facts: Installation) -> _Verdict:
    canary = facts.canary_job or CanaryJob()
    if canary.job is None:
        return _DID_NOT_RUN
    if canary.no_gpu:
        what_to_do = "Run doctor as a Slurm user, or in a cluster, whose default partition has GPUs."
        return _Verdict(f"the canary job got no GPU: {canary.no_gpu}", what_to_do, Level.WARNING)
    if facts.slurm is None or not facts.slurm.gpus:
        return _Verdict("Slurm has no GPUs here")
    node = ",".join(canary.job.nodes)
    if (seen := _SEEN.get(canary.job.exit_code)) is not None:
        level = Level.FAILED if canary.job.exit_code != Seen.OTHERS_DEVICES else Level.WARNING
        return _Verdict(f"job {canary.job.id} on {node}: {seen[0]}", seen[1], level)
    return _Verdict(f"job {canary.job.id} on {node} saw the one GPU that Slurm gave it, in variables and device files")


def _accounting(facts: Installation) -> _Verdict:
    canary = facts.canary_job or CanaryJob()
    if canary.job is None:
        return _DID_NOT_RUN
    if not canary.is_accounted:
        return _Verdict("accounting is off: slurmrestd has no slurmdbd to ask")
    what_to_do = "See the logs of slurmdbd and slurmctld; sdiag says how many records wait for slurmdbd."
    if canary.no_record:
        return _Verdict(canary.no_record, what_to_do)
    if canary.record is None:
        return _Verdict(f"slurmdbd does not know job {canary.job.id}", what_to_do)
    own = _standing(canary.job.state, canary.job.nodes)
    theirs = _standing(canary.record.state, canary.record.nodes)
    if not is_recorded(canary.job, canary.record):
        return _Verdict(f"slurmctld has job {canary.job.id} as {own}, slurmdbd as {theirs}", what_to_do)
    return _Verdict(f"slurmctld and slurmdbd have job {canary.job.id} as {theirs}")


def is_recorded(job: SlurmJob, record: JobRecord) -> bool:
    """True if slurmdbd's record of an ended job agrees with slurmctld's; slurmdbd may need a moment to complete it."""
    return bool(record.state) and record.state <= job.state and set(record.nodes) == set(job.nodes)


def _standing(state: Iterable[str], nodes: Iterable[str]) -> str:
    return f"{'+'.join(sorted(state))} on {','.join(nodes) or 'no node'}"


_RULES: Final = (
    _Rule("apiserver", "asked the apiserver for its version", ("server_version",), _apiserver),
    _Rule("CRD", "asked the apiserver which kinds it serves", ("has_nodeset_kind",), _crd),
    _Rule("your rights", "asked the apiserver what you may do", ("rights",), _rights),
    _Rule("admission policies", "read policies of sunkpy and their bindings", ("policies", "bindings"), _policies),
    _Rule(
        "system classes",
        "read which workloads have a system priority class",
        ("policies", "bindings", "workloads"),
        _system_classes,
    ),
    _Rule(
        "file servers",
        "compared PersistentVolumes of homes and sharedFolders with the policy of home.protect",
        ("shared", "policies", "bindings"),
        _file_servers,
    ),
    _Rule("processes", "read the pods of the charts", ("processes",), _processes),
    _Rule(
        "replicas",
        "compared the Deployments and StatefulSets of the charts with their ready pods",
        ("our_workloads",),
        _replicas,
    ),
    _Rule("versions", "compared the images of sunkpy's processes", ("processes",), _versions),
    _Rule("leaders", "read the Leases of sunkpy's processes", ("leases",), _leaders),
    _Rule("keys", "looked for the Secrets that pods of the charts mount", ("secrets",), _secrets),
    _Rule(
        _HOOKS,
        "tried the address that Prologs and Epilogs call, or read the endpoints of its Service",
        ("hooks",),
        _hooks,
    ),
    _Rule("backups", "read the CronJobs of backups and how their last runs ended", ("backups",), _backups),
    _Rule("volumes", "read how full the volumes of slurmctld and MariaDB are", ("volumes",), _volumes),
    _Rule("slurmrestd", "pinged slurmrestd, and read Slurm's nodes", ("slurm",), _slurmrestd),
    _Rule("NodeSets", "read the status of NodeSets", ("nodesets",), _nodesets),
    _Rule("slurmd pods", "read the conditions of slurmd pods", ("slurmd_pods",), _slurmd_pods),
    _Rule("clocks", "compared the kubelets' heartbeats with this machine's clock", ("nodes", "heartbeats"), _clocks),
    _Rule("canary job", "ran a test job", ("slurm", "canary_job"), _canary_job),
    _Rule(
        "devices of a job",
        "compared the GPU that the canary job saw with the one that Slurm gave it",
        ("slurm", "canary_job"),
        _devices,
    ),
    _Rule("accounting", "asked slurmdbd for the canary job", ("slurm", "canary_job"), _accounting),
    _Rule("canary pod", "ran a test pod", ("canary_pod",), _canary_pod),
)


def render_checks(checks: Iterable[Check], *, is_wide: bool = False) -> Iterator[str]:
    """Yield a line for each check, and below a check that is not well, what was tried and what to do. If `is_wide`,
    what was tried is below every check.
    """
    for check in checks:
        yield f"{check.level:<8}  {check.name}: {printable(check.found)}"
        if is_wide or check.level is not Level.OK:
            yield f"          tried: {check.tried}"
        if check.what_to_do:
            yield f"          do: {check.what_to_do}"
