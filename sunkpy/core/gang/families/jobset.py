"""The family of JobSets, and of workloads made of JobSets: a TrainJob of Kubeflow Trainer v2 makes a JobSet of the same
name.

All pods of a JobSet are one gang, with two exceptions. First, replicatedJobs that begin only when others are Complete
are a later stage. Each stage is a gang of its own, because the pods of the earlier stage are gone by then. Second, with
exclusive placement each child Job is a gang of its own, on nodes of one topology domain: JobSet's webhook refuses the
Job's other pods until its first pod is bound. A restart replaces all pods: the label restart-attempt is the generation
of the gang, which tells restarts apart.

Sources: jobset v0.10.1 api/jobset/v1alpha2/jobset_types.go (labels, defaults), pkg/controllers/jobset_controller.go
(labelAndAnnotateObject, reconcileReplicatedJobs), failure_policy.go, depends_on.go,
pkg/webhooks/pod_admission_webhook.go; trainer v2.0.0 pkg/runtime/framework/plugins/jobset (it resumes a JobSet that
somebody suspended without its TrainJob).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families import declaration
from sunkpy.core.gang.families.batch_job import JOB
from sunkpy.core.gang.families.belonging import made_by, nearest
from sunkpy.core.gang.families.declaration import BadDeclaration, count, ordinal
from sunkpy.core.gang.gang import Family, Gang, Owners, Role, Suspension, by_seniority
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

JOB_SET: Final = Kind(group="jobset.x-k8s.io", kind="JobSet")
TRAIN_JOB: Final = Kind(group="trainer.kubeflow.org", kind="TrainJob")

NAME: Final = "jobset.sigs.k8s.io/jobset-name"
UID: Final = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
POD_INDEX: Final = "batch.kubernetes.io/job-completion-index"
EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
BY_NODE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"

_OVER: Final = ("Completed", "Failed")
_UNLIMITED: Final = 2**31 - 1


class _DependsOn(Wire, frozen=True, kw_only=True):
    name: str
    status: str


class _Ordered(Wire, frozen=True, kw_only=True):
    """The fields of a replicatedJob (in a JobSet) that say when it starts. The fields of an existing JobSet never
    change.
    """

    name: str
    depends_on: tuple[_DependsOn, ...] | None = ()


class _Order(Wire, frozen=True, kw_only=True):
    replicated_jobs: tuple[_Ordered, ...] = ()


class _PodCondition(Wire, frozen=True, kw_only=True):
    type: str = ""


class _PodFailureRule(Wire, frozen=True, kw_only=True):
    action: str = ""
    on_pod_conditions: tuple[_PodCondition, ...] = ()


class _PodFailurePolicy(Wire, frozen=True, kw_only=True):
    rules: tuple[_PodFailureRule, ...] = ()


class _JobSpec(Wire, frozen=True, kw_only=True):
    """The spec of the child Jobs of a replicatedJob in a JobSet. Its defaults are those of the apiserver and of
    JobSet's webhook.
    """

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "Indexed"
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: _PodFailurePolicy = _PodFailurePolicy()
    template: declaration.Template = declaration.Template()


class _TemplateMeta(Wire, frozen=True, kw_only=True):
    annotations: Mapping[str, str] = {}


class _JobTemplate(Wire, frozen=True, kw_only=True):
    metadata: _TemplateMeta = _TemplateMeta()
    spec: _JobSpec = _JobSpec()


class _ReplicatedJob(_Ordered, frozen=True, kw_only=True):
    replicas: int = 1
    template: _JobTemplate = _JobTemplate()

    @property
    def pods_per_job(self) -> int:
        """How many pods each child Job of this replicatedJob has at the same time."""
        spec = self.template.spec
        return spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)

    @property
    def seats(self) -> int:
        return self.replicas * self.pods_per_job

    @property
    def is_numbered(self) -> bool:
        """True if each pod of a child Job has an index below the Job's `parallelism`. Then no pod has to wait until
        another one has ended, and the index can be its seat.
        """
        spec = self.template.spec
        return spec.completion_mode == "Indexed" and (spec.completions or 0) <= spec.parallelism


class _StartupPolicy(Wire, frozen=True, kw_only=True):
    startup_policy_order: str = ""


class _Coordinator(Wire, frozen=True, kw_only=True):
    replicated_job: str = ""
    job_index: int = 0
    pod_index: int = 0


class _FailureRule(Wire, frozen=True, kw_only=True):
    action: str = ""
    on_job_failure_reasons: tuple[str, ...] = ()
    on_job_failure_message_patterns: tuple[str, ...] = ()
    target_replicated_jobs: tuple[str, ...] = ()

    def is_about(self, job: str) -> bool:
        """True if this rule of the JobSet's failurePolicy applies when a Job of the replicatedJob `job` fails by
        evictions. A rule with a message pattern never counts, because it is not known whether the pattern matches.
        """
        return (
            self.on_job_failure_reasons in ((), ("BackoffLimitExceeded",))
            and not self.on_job_failure_message_patterns
            and (not self.target_replicated_jobs or job in self.target_replicated_jobs)
        )


class _FailurePolicy(Wire, frozen=True, kw_only=True):
    max_restarts: int = 0
    rules: tuple[_FailureRule, ...] = ()


class _SuccessPolicy(Wire, frozen=True, kw_only=True):
    target_replicated_jobs: tuple[str, ...] = ()


class _Spec(Wire, frozen=True, kw_only=True):
    replicated_jobs: tuple[_ReplicatedJob, ...] = ()
    startup_policy: _StartupPolicy = _StartupPolicy()
    coordinator: _Coordinator = _Coordinator()
    failure_policy: _FailurePolicy | None = None
    success_policy: _SuccessPolicy = _SuccessPolicy()
    suspend: bool = False


class _JobsStatus(Wire, frozen=True, kw_only=True):
    name: str
    succeeded: int = 0


class _Status(Wire, frozen=True, kw_only=True):
    restarts: int = 0
    restarts_count_towards_max: int = 0
    replicated_jobs_status: tuple[_JobsStatus, ...] = ()


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    found = made_by(pod, JOB_SET, owners)
    is_jobs = made_by(pod, JOB) is not None
    if not is_jobs or REPLICATED_JOB not in pod.labels:
        return None
    # If the Job was read, only its owner references say whether it belongs to a JobSet.
    if found is None and nearest(owners, JOB) is not None:
        return None
    name, uid = (found.name, found.uid) if found else (pod.labels.get(NAME, ""), pod.labels.get(UID, ""))
    if not name or not uid:
        return None
    return GangId(
        namespace=pod.metadata.namespace,
        name=name,
        uid=token(uid),
        unit=token(_unit(pod, nearest(owners, JOB_SET))),
        generation=token(pod.labels.get(ATTEMPT, "")),
    )


def _unit(pod: Pod, jobset: Owner | None) -> str:
    job = pod.labels[REPLICATED_JOB]
    if _domain_of(pod):
        return f"job-{job}-{pod.labels.get(JOB_INDEX, '')}"
    stages = _stages_of(jobset) if jobset else {}
    several = len(set(stages.values())) > 1
    return f"stage-{stages[job]}" if several and job in stages else ""


def _stages_of(jobset: Owner) -> dict[str, str]:
    try:
        return _stages(jobset.spec_as(_Order).replicated_jobs)
    except (msgspec.ValidationError, RecursionError, BadDeclaration):
        return {}  # `assemble` reports the error


def _stages(jobs: Sequence[_Ordered]) -> dict[str, str]:
    """Return for each replicatedJob of a JobSet its stage, named after the first replicatedJob in it. ReplicatedJobs
    that wait until the same others are Complete are one stage.
    """
    awaited: dict[str, frozenset[str]] = {}
    for job in declaration.few(jobs, field="spec.replicatedJobs"):
        names: frozenset[str] = frozenset()
        for each in job.depends_on or ():
            names |= awaited.get(each.name, frozenset())
            names |= {each.name} if each.status == "Complete" else frozenset()
        awaited[job.name] = names
    first: dict[frozenset[str], str] = {}
    return {name: first.setdefault(names, name) for name, names in awaited.items()}


def _domain_of(pod: Pod) -> str:
    """Return the node label (topology key) whose value the pods of each child Job must share, and share with no other
    Job: exclusive placement. Empty if the pod does not ask for that.

    It is also empty with the node-selector strategy: somebody has labelled the nodes beforehand, and no pod waits for
    another.
    """
    return "" if BY_NODE_SELECTOR in pod.annotations else pod.annotations.get(EXCLUSIVE, "")


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    jobset = declaration.required(owners, JOB_SET, called=f"JobSet {id.namespace}/{id.name}")
    spec = declaration.declared(jobset, _Spec)
    replicated = declaration.few(spec.replicated_jobs, field=f"{_kind(owners)}: spec.replicatedJobs")
    jobs = {job.name: _checked(job, jobset) for job in replicated}
    name = pods[0].labels[REPLICATED_JOB]
    if name not in jobs:
        raise BadDeclaration(f"{_kind(owners)} has no replicatedJob {name}, which pod {pods[0].name} names as its own")
    domain = _domain_of(pods[0])
    mine = [jobs[name]] if domain else _together(jobs[name], jobset, spec)
    roles = _led(jobs[name], pods) if domain else _in_waves(mine, pods, spec)
    what = f", {id.unit.replace('-', ' ', 1)}" if id.unit else ""
    gang = Gang(
        id=id,
        roles=tuple(roles),
        kind=f"{_kind(owners)}{what}",
        one_domain=domain,
        expects_more=declaration.is_alive(jobset, _OVER, suspended=spec.suspend)
        and _lacks_success(id, jobset, mine, roles),
        final_because=_final_because(jobset, spec, mine),
        suspension=_suspension(jobset, owners),
    )
    return declaration.make(gang, owners)


def _kind(owners: Owners) -> str:
    owner = nearest(owners, TRAIN_JOB) or nearest(owners, JOB_SET)
    return f"{owner.kind} {'/'.join(owner.key)}" if owner else ""


def _checked(job: _ReplicatedJob, jobset: Owner) -> _ReplicatedJob:
    where = f"spec.replicatedJobs[{job.name}]"
    count(jobset, f"{where}.replicas", job.replicas)
    count(jobset, f"{where}.template.spec.parallelism", job.template.spec.parallelism)
    count(jobset, f"{where}.template.spec.completions", job.template.spec.completions or 0)
    return job


def _together(job: _ReplicatedJob, jobset: Owner, spec: _Spec) -> list[_ReplicatedJob]:
    """Return the replicatedJobs that are one gang with `job`: those of the same stage, which wait until the same others
    are Complete. The coordinator's replicatedJob comes first; others with exclusive placement are left out.
    """
    stages = _stages(spec.replicated_jobs)
    stage = [
        each
        for each in spec.replicated_jobs
        if stages[each.name] == stages[job.name] and (each is job or not _is_exclusive(each, jobset))
    ]
    return sorted(stage, key=lambda each: each.name != spec.coordinator.replicated_job)


def _is_exclusive(job: _ReplicatedJob, jobset: Owner) -> bool:
    annotations = {**jobset.annotations, **job.template.metadata.annotations}
    return EXCLUSIVE in annotations and BY_NODE_SELECTOR not in annotations


def _in_waves(jobs: Sequence[_ReplicatedJob], pods: Sequence[Pod], spec: _Spec) -> list[Role]:
    waves = _waves(spec)
    first = min(waves[job.name] for job in jobs)
    roles = [_role(job, pods, spec, is_first=waves[job.name] == first) for job in jobs]
    # If the successPolicy names only Jobs of another stage, the exit codes of all roles count.
    return (
        roles
        if any(role.decides for role in roles)
        else [msgspec.structs.replace(each, decides=True) for each in roles]
    )


def _waves(spec: _Spec) -> dict[str, int]:
    """Return for each replicatedJob of a JobSet how many others must become Ready, one after another, before its pods
    are made; 0 if they are made at once.
    """
    if spec.startup_policy.startup_policy_order == "InOrder":
        return {job.name: wave for wave, job in enumerate(spec.replicated_jobs)}
    waves: dict[str, int] = {}
    for job in spec.replicated_jobs:
        before = [waves.get(each.name, 0) + 1 for each in job.depends_on or () if each.status == "Ready"]
        waves[job.name] = max(before, default=0)
    return waves


def _role(job: _ReplicatedJob, pods: Sequence[Pod], spec: _Spec, *, is_first: bool) -> Role:
    own = [pod for pod in pods if pod.labels.get(REPLICATED_JOB) == job.name]
    index_of = _index_of(job, spec.coordinator)
    members = declaration.numbered(own, index_of, job.seats) if job.is_numbered else by_seniority(own, job.seats)
    targets = spec.success_policy.target_replicated_jobs
    role = Role(
        name=job.name,
        seats=job.seats,
        first=job.seats if is_first else 0,
        members=members,
        decides=not targets or job.name in targets,
    )
    return declaration.waiting_role(role, job.template.spec.template)


def _index_of(job: _ReplicatedJob, coordinator: _Coordinator) -> Callable[[Pod], int]:
    """Return a function that returns the index of a pod in its role: the pods are counted Job by Job, and the numbers
    are shifted so that the coordinator's pod has index 0. For a pod with impossible labels it returns -1.
    """
    per_job = job.pods_per_job
    is_here = coordinator.replicated_job == job.name
    turned_by = coordinator.job_index * per_job + coordinator.pod_index if is_here else 0

    def index_of(pod: Pod) -> int:
        number_of_job, number_of_pod = ordinal(pod.labels.get(JOB_INDEX)), _pod_index(pod)
        if not (0 <= number_of_job < job.replicas and 0 <= number_of_pod < per_job):
            return -1
        return (number_of_job * per_job + number_of_pod - turned_by) % job.seats

    return index_of


def _pod_index(pod: Pod) -> int:
    return ordinal(pod.labels.get(POD_INDEX) or pod.annotations.get(POD_INDEX))


def _led(job: _ReplicatedJob, pods: Sequence[Pod]) -> list[Role]:
    """Return the two roles of a child Job with exclusive placement: a leader, which is its first pod, and the
    followers, which are its other pods and are made only when the first is bound.
    """
    others = max(job.pods_per_job - 1, 0)
    leader = Role(name="leader", seats=1, first=1, members=declaration.numbered(pods, _pod_index, 1))
    followers = Role(
        name="follower",
        seats=others,
        first=0,
        members=declaration.numbered(pods, lambda pod: _pod_index(pod) - 1, others),
    )
    return [leader, declaration.waiting_role(followers, job.template.spec.template)]


def _lacks_success(id: GangId, jobset: Owner, jobs: Sequence[_ReplicatedJob], roles: Sequence[Role]) -> bool:
    """True if these replicatedJobs have not succeeded yet, so that the JobSet may make more pods for the gang `id`.
    False if a restart has replaced the gang's pods by those of another generation.
    """
    status = jobset.status_as(_Status)
    if id.generation not in ("", str(status.restarts)):
        return False
    done = {each.name: each.succeeded for each in status.replicated_jobs_status}
    if all(done.get(job.name, 0) >= job.replicas for job in jobs):
        return False
    succeeded = sum(member.pod.status.phase == "Succeeded" for role in roles for member in role.members)
    is_one_job = id.unit.startswith("job-")
    return succeeded < sum((1 if is_one_job else job.replicas) * (job.template.spec.completions or 1) for job in jobs)


def _final_because(jobset: Owner, spec: _Spec, jobs: Sequence[_ReplicatedJob]) -> str:
    """Say why the JobSet does not replace evicted pods: they count as failed, so their Job fails, and the JobSet with
    it. Empty if they are replaced.
    """
    reasons = ((job, _fails_because(job)) for job in jobs)
    failing = [(job, reason) for job, reason in reasons if reason]
    for job, reason in failing:
        if ends := _ends_because(jobset, spec.failure_policy, job.name):
            return f"{reason}, and {ends}"
    return ""


def _fails_because(job: _ReplicatedJob) -> str:
    """Say why a child Job of this replicatedJob fails when all its pods are evicted; empty if the Job replaces them."""
    spec = job.template.spec
    rules = [rule for rule in spec.pod_failure_policy.rules if _DISRUPTED in rule.on_pod_conditions]
    if rules and rules[0].action != "Count":
        return "" if rules[0].action == "Ignore" else f"podFailurePolicy of {job.name} fails it when a pod is evicted"
    if spec.backoff_limit_per_index == 0:
        return f"backoffLimitPerIndex of {job.name} is 0"
    unsaid = 6 if spec.backoff_limit_per_index is None else _UNLIMITED
    limit = unsaid if spec.backoff_limit is None else spec.backoff_limit
    if job.pods_per_job <= limit:
        return ""
    return f"backoffLimit of {job.name} is {limit}, and its {job.pods_per_job} evicted pods count as failed"


_DISRUPTED: Final = _PodCondition(type="DisruptionTarget")


def _ends_because(jobset: Owner, policy: _FailurePolicy | None, job: str) -> str:
    """Say why the JobSet fails when a Job of the replicatedJob `job` fails; empty if the JobSet is restarted then."""
    if policy is None:
        return "the JobSet has no failurePolicy"
    match next((rule.action for rule in policy.rules if rule.is_about(job)), ""):
        case "FailJobSet":
            return "a rule of its failurePolicy fails the JobSet"
        case "RestartJobSetAndIgnoreMaxRestarts":
            return ""
    used = jobset.status_as(_Status).restarts_count_towards_max
    return f"{used} of {policy.max_restarts} restarts are used" if used >= policy.max_restarts else ""


def _suspension(jobset: Owner, owners: Owners) -> Suspension | None:
    """Return how to suspend the workload: the TrainJob above the JobSet if there is one, because it would resume the
    JobSet; if not, the JobSet. None if the object to suspend has a controller.
    """
    return declaration.suspension(nearest(owners, TRAIN_JOB) or jobset, "spec", "suspend")


FAMILY = Family(
    name="JobSet",
    known_by="a Job whose owner is a JobSet",
    identify=_identify,
    assemble=_assemble,
    reads=(JOB, JOB_SET),
)
