"""The families of Volcano: its Job, and PodGroups that people and other operators make.

A Volcano Job is one gang of `minAvailable` seats (a seat is room for one pod). Each task of the Job first gets as many
seats as the task's own `minAvailable`. If the Job has more seats than the tasks' minimums together, tasks that start
first get the rest; if it has fewer, these minimums do not count (as in Volcano's gang plugin). Other replicas get a job
each. Pods of a task that depends on other tasks are made when those run: the job holds their seats. A Job that restarts
replaces all pods under the same names: its version is the generation of the gang, which tells restarts apart.

A PodGroup counts only for pods that no family of an operator takes: in PodGroups of operators the counts are copies,
and often wrong. Volcano itself makes a PodGroup for pods without one (`podgroup-<uid of the controller>`). Such a
PodGroup declares nothing and is written on the pods after they were made, so it is ignored.

Some controllers make no pods while the phase of the PodGroup is "" or Pending: Volcano, paddle-operator, and
training-operator in volcano mode. Volcano's scheduler would change the phase, but it does not run here. So the code
around this module finds the controller of each PodGroup (without one, people make the pods anyway) and asks
`names_scheduler` whether the pods will be for this scheduler. It counts the bound pods of the group and patches
`status.phase` to the result of `phase_wanted`, guarded by uid and resourceVersion. It does so again when the PodGroup
or a pod of it changes: a Job that restarts gets a new PodGroup without a phase.

Source: Volcano v1.14.1, pkg/controllers/job/{job_controller_actions,job_controller_util}.go (syncTask, createJobPod,
applyPolicies), pkg/webhooks/admission/jobs/mutate/mutate_job.go (defaults), pkg/scheduler/api/job_info.go
(TaskMinAvailableTotal), pkg/scheduler/framework/session.go (getPodGroupPhase), apis/helpers/helpers.go
(GeneratePodgroupName).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import made_by, maker, named_id
from sunkpy.core.gang.families.declaration import (
    BadDeclaration,
    Template,
    about,
    at_least,
    few,
    make,
    ordinal,
    required,
)
from sunkpy.core.gang.gang import Family, Gang, Link, Owners, Role, by_seniority, ranked
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

JOB: Final = Kind(group="batch.volcano.sh", kind="Job")
POD_GROUP: Final = Kind(group="scheduling.volcano.sh", kind="PodGroup")

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
JOB_VERSION: Final = "volcano.sh/job-version"
TASK: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"

SCHEDULER: Final = "volcano"
"""The schedulerName that pods get in volcano mode if no template names one."""

_UNNAMED_TASK: Final = "default"
_LIVE_PHASES: Final = ("", "Pending", "Running", "Restarting")
_FINAL_ACTIONS: Final = ("AbortJob", "TerminateJob", "CompleteJob")
_WHEN_EVICTED: Final = ("PodEvicted", "PodFailed", "*")


class _Policy(Wire, frozen=True, kw_only=True):
    action: str = ""
    event: str = ""
    events: tuple[str, ...] | None = None

    @property
    def answers(self) -> tuple[str, ...]:
        """The events on which this lifecycle policy of a Volcano Job or task takes its action, such as PodEvicted."""
        return (*(self.events or ()), self.event)


class _DependsOn(Wire, frozen=True, kw_only=True):
    name: tuple[str, ...] | None = None


class _Tiered(Wire, frozen=True, kw_only=True):
    network_topology: dict[str, object] | None = None
    """The tier of HyperNodes below which Volcano would keep the pods, with mode hard or soft."""


class _Partitions(_Tiered, frozen=True, kw_only=True):
    partition_size: int = 0
    min_partitions: int = 0


class _Task(Wire, frozen=True, kw_only=True):
    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    depends_on: _DependsOn | None = None
    partition_policy: _Partitions | None = None
    policies: tuple[_Policy, ...] | None = None
    template: Template = Template()

    @property
    def called(self) -> str:
        """The name of the task as it stands on its pods: `default` for a task without a name."""
        return self.name or _UNNAMED_TASK

    @property
    def least(self) -> int:
        """The smallest number of the task's pods that Volcano's gang plugin lets start: minAvailable, or without it the
        default that Volcano computes (mutateSpec).
        """
        if self.min_available is not None:
            return self.min_available
        partitions = self.partition_policy
        return partitions.min_partitions * partitions.partition_size if partitions is not None else self.replicas

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the tasks of the Volcano Job that must run before this task starts."""
        return (self.depends_on.name or ()) if self.depends_on is not None else ()


class _Job(_Tiered, frozen=True, kw_only=True):
    min_available: int = 0
    tasks: tuple[_Task, ...] = ()
    policies: tuple[_Policy, ...] | None = ()


class _State(Wire, frozen=True, kw_only=True):
    phase: str = ""


class _JobStatus(Wire, frozen=True, kw_only=True):
    state: _State = _State()


class _Group(_Tiered, frozen=True, kw_only=True):
    min_member: int = 1
    min_task_member: dict[str, int] | None = None
    sub_group_policy: tuple[_Tiered, ...] | None = None


def _identify_job(pod: Pod, _owners: Owners) -> GangId | None:
    job = made_by(pod, JOB)
    if job is None:
        return None
    generation = token(pod.annotations.get(JOB_VERSION, ""))
    return GangId(namespace=pod.metadata.namespace, name=job.name, uid=job.uid, generation=generation)


def _assemble_job(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    called = f"Volcano Job {id.namespace}/{id.name}"
    job = required(owners, JOB, called=called)
    spec = job.spec_as(_Job)
    with about(called):
        roles = _task_roles(spec, pods)
    partitions = [task.partition_policy for task in spec.tasks if task.partition_policy is not None]
    problems = _no_tiers({"spec.": [spec], "spec.tasks[].partitionPolicy.": partitions})
    gang = make(Gang(id=id, roles=roles, kind=called, problems=problems), owners)
    more = _expects_more(job, gang.roles)
    return msgspec.structs.replace(gang, expects_more=more, final_because=_final_because(called, spec))


def _no_tiers(parts: Mapping[str, Sequence[_Tiered]]) -> tuple[Problem, ...]:
    """Return a problem for each place in the spec that asks for a tier of HyperNodes. `parts`: the path of each place →
    the objects that stand there.
    """
    return tuple(
        Problem(
            text=f"{path}networkTopology is not read, because Slurm knows no tiers: ask for sunkpy.dev/switches: 1",
            fatal=False,
        )
        for path, there in parts.items()
        if any(each.network_topology is not None for each in there)
    )


def _task_roles(spec: _Job, pods: Sequence[Pod]) -> tuple[Role, ...]:
    ordered = _in_waves(_checked(spec.tasks))
    by_task: dict[str, list[Pod]] = {}
    for pod in pods:
        by_task.setdefault(pod.annotations.get(TASK, _UNNAMED_TASK), []).append(pod)
    deciders = {task.called for task in ordered if _completes_job(task)} or {task.called for task in ordered}
    seats = _seats(spec.min_available, ordered)
    return tuple(
        Role(
            name=task.called,
            seats=seats[task.called],
            first=0 if task.needs else seats[task.called],
            members=ranked(
                (pod for pod in by_task.get(task.called, ()) if 0 <= _index(pod) < seats[task.called]), _index
            ),
            shape=task.template.shape,
            decides=task.called in deciders,
        )
        for task in ordered
        if seats[task.called]
    )


def _checked(tasks: Sequence[_Task]) -> Sequence[_Task]:
    """Return the tasks of a Volcano Job unchanged, after checking their numbers and names.

    Raises:
        BadDeclaration: a number or name is impossible.
    """
    names = Counter(task.called for task in few(tasks, field="spec.tasks"))
    for task in tasks:
        field = f"task {task.called}: "
        at_least(task.replicas, 0, field=f"{field}replicas")
        if at_least(task.least, 0, field=f"{field}minAvailable") > task.replicas:
            raise BadDeclaration(f"{field}minAvailable {task.least} is above its {task.replicas} replicas")
        if names[task.called] > 1:
            raise BadDeclaration(f"two tasks are called {task.called}")
        for other in task.needs:
            if other not in names:
                raise BadDeclaration(f"{field}dependsOn names {other}, which is no task of the Job")
    return tasks


def _in_waves(tasks: Sequence[_Task]) -> list[_Task]:
    """Return the tasks of a Volcano Job in the order in which they start: each after the tasks that it depends on.
    Tasks that can start together stay in the order of the Job.

    Raises:
        BadDeclaration: tasks depend on one another in a circle.
    """
    needs = [set(task.needs) for task in tasks]
    needed_by: dict[str, list[int]] = {}
    for number, names in enumerate(needs):
        for name in names:
            needed_by.setdefault(name, []).append(number)
    ordered: list[_Task] = []
    wave = [number for number, names in enumerate(needs) if not names]
    while wave:
        ordered += (tasks[number] for number in wave)
        after: list[int] = []
        for name in (tasks[number].called for number in wave):
            for number in needed_by.get(name, ()):
                needs[number].remove(name)
                after += [] if needs[number] else [number]
        wave = sorted(after)
    if len(ordered) < len(tasks):
        stuck = ", ".join(task.called for task, names in zip(tasks, needs, strict=True) if names)
        raise BadDeclaration(f"tasks depend on one another in a circle: {stuck}")
    return ordered


def _seats(min_available: int, tasks: Sequence[_Task]) -> Mapping[str, int]:
    """Return for each task of a Volcano Job how many of its pods the gang has room for. Together they are the Job's
    `minAvailable`; if that is 0, the minimums of all tasks.

    Raises:
        BadDeclaration: the numbers are impossible or contradict each other.
    """
    least, most = sum(task.least for task in tasks), sum(task.replicas for task in tasks)
    wanted = at_least(min_available, 0, field="minAvailable") or least
    if wanted > most:
        raise BadDeclaration(f"minAvailable {wanted} is above the {most} replicas of all tasks")
    at_least(wanted, 1, field="minAvailable")
    # If the Job wants fewer pods than its tasks together, the tasks' minimum does not count (CheckTaskValid).
    seats = {task.called: task.least if least <= wanted else 0 for task in tasks}
    left = wanted - sum(seats.values())
    for task in tasks:
        more = min(left, task.replicas - seats[task.called])
        seats[task.called] += more
        left -= more
    return seats


def _index(pod: Pod) -> int:
    """Return the number of a pod in its task, from its annotation. Old versions of Volcano write the number only at the
    end of the pod's name.
    """
    return ordinal(pod.annotations.get(TASK_INDEX) or pod.name.rpartition("-")[2])


def _completes_job(task: _Task) -> bool:
    return any("TaskCompleted" in policy.answers and policy.action == "CompleteJob" for policy in task.policies or ())


def _expects_more(job: Owner, roles: Sequence[Role]) -> bool:
    """True if the Volcano Job has not ended and some of the gang's seats have no pod yet, such as the seats of a task
    that starts later.
    """
    if job.is_deleting or job.status_as(_JobStatus).state.phase not in _LIVE_PHASES:
        return False
    return any(len({member.index for member in role.members}) < role.seats for role in roles)


def _final_because(called: str, spec: _Job) -> str:
    policies = [*(policy for task in spec.tasks for policy in task.policies or ()), *(spec.policies or ())]
    for policy in policies:
        event = next((event for event in _WHEN_EVICTED if event in policy.answers), None)
        if event is not None and policy.action in _FINAL_ACTIONS:
            return f"{called} answers {event} with {policy.action}"
    return ""


def _group_name(pod: Pod) -> str:
    """Return the name of the PodGroup that the pod's annotation names. Empty if there is none, or if Volcano itself
    made that PodGroup for pods without one.
    """
    name = pod.annotations.get(GROUP_NAME, "")
    return "" if name == f"podgroup-{maker(pod) or pod.uid}" else name


def _identify_group(pod: Pod, _owners: Owners) -> GangId | None:
    name = _group_name(pod)
    return named_id(pod, GROUP_NAME, name) if name else None


def _refers(pod: Pod) -> tuple[Link, ...]:
    name = _group_name(pod)
    return (Link(kind=POD_GROUP, namespace=pod.metadata.namespace, name=name),) if name else ()


def _assemble_group(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    called = f"Volcano PodGroup {id.namespace}/{id.name}"
    spec = required(owners, POD_GROUP, called=called).spec_as(_Group)
    with about(called):
        roles = _group_roles(spec, pods)
    problems = _no_tiers({"spec.": [spec], "spec.subGroupPolicy[].": spec.sub_group_policy or ()})
    gang = make(Gang(id=id, roles=roles, kind=called, problems=problems), owners)
    final = "" if all(map(maker, pods)) else "nothing makes a bare pod again"
    return msgspec.structs.replace(gang, final_because=final)


def _group_roles(spec: _Group, pods: Sequence[Pod]) -> tuple[Role, ...]:
    wanted = at_least(spec.min_member, 1, field="minMember")
    tasks = {task: least for task, least in (spec.min_task_member or {}).items() if least > 0}
    if sum(tasks.values()) > wanted:
        tasks = {}
    seated = {
        task: by_seniority((pod for pod in pods if pod.annotations.get(TASK) == task), least)
        for task, least in tasks.items()
    }
    taken = {member.pod.uid for members in seated.values() for member in members}
    left = wanted - sum(tasks.values())
    others = by_seniority((pod for pod in pods if pod.uid not in taken), left)
    roles = [Role(name=task, seats=tasks[task], first=tasks[task], members=members) for task, members in seated.items()]
    return (*roles, Role(name="pod", seats=left, first=left, members=others)) if left else tuple(roles)


def phase_wanted(group: Owner, *, bound: int) -> str | None:
    """Return the phase that sunkpy has to write to the status of a PodGroup whose pods it schedules; None if the phase
    need not be changed.

    With Inqueue, the controller of the PodGroup makes the pods. Running means that at least `minMember` of them have a
    node. Running is never undone: with "" or Pending the controller would not replace a lost pod.

    Args:
        bound: how many pods of the group have a node and have not ended.
    """
    try:
        phase = group.status_as(_State).phase
        least = group.spec_as(_Group).min_member
    except msgspec.ValidationError:  # a PodGroup of an unknown version
        return None
    if phase in ("", "Pending", "Inqueue", "Unknown") and bound >= max(1, least):
        return "Running"
    return "Inqueue" if phase in ("", "Pending") else None


def names_scheduler(owner: Owner, schedulers: Collection[str]) -> bool:
    """True if the pods of this owner will be for one of these schedulers: the owner's spec, or a template in it, names
    one.

    If the spec names no scheduler, volcano mode gives the pods the scheduler name `volcano`: then the result is True if
    that name is among `schedulers`.
    """
    named = set(_scheduler_names(msgspec.json.decode(owner.spec)))
    return not named.isdisjoint(schedulers) if named else SCHEDULER in schedulers


def _scheduler_names(spec: object) -> list[str]:
    found: list[str] = []
    left = [spec]
    while left:
        tree = left.pop()
        if isinstance(tree, dict):
            name = tree.get("schedulerName")
            found += [name] if isinstance(name, str) and name else []
            left += tree.values()
        elif isinstance(tree, list):
            left += tree
    return found


FAMILY = Family(
    name="Volcano Job",
    known_by="its owner is a Job of batch.volcano.sh",
    identify=_identify_job,
    assemble=_assemble_job,
    reads=(JOB,),
)
POD_GROUP_FAMILY = Family(
    name="Volcano PodGroup",
    known_by="annotation scheduling.k8s.io/group-name",
    identify=_identify_group,
    assemble=_assemble_group,
    reads=(POD_GROUP,),
    refers=_refers,
)
