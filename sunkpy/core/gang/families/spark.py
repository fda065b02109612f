"""The family of Spark on Kubernetes: a SparkApplication of spark-operator, and pods of a plain `spark-submit`.

A SparkApplication has one job and starts in two waves: the driver, then the executors with which it begins. The job has
room for these executors from the beginning; the driver makes their pods when it runs, a batch each second. Further
executors get jobs of their own, and Spark survives their loss. Each submission of the application (the operator makes a
new one for a retry) is a generation of the gang: it has a job of its own, which waits until the earlier one has ended.
In client mode no driver pod exists, and the gang is the executors.

With plain `spark-submit` each pod has a job of its own. Only a ConfigMap of random name, made after the driver pod,
says how many executors there will be. ConfigMaps may hold secrets, and nothing else here needs them, so they are not
read. To get one job for such a driver and its executors, write `sunkpy.dev/gang` into the pod templates.

What a pod needs is read from the pod. For pods that do not exist yet it is computed as Spark does it: `512m` is 512
MiB, as in Java, and overhead is added.

Source: spark-operator v2.5.2, api/v1beta2/sparkapplication_types.go, pkg/util/sparkapplication.go
(GetInitialExecutorNumber, ShouldRetry), internal/controller/sparkapplication/submission.go (labels; owners of drivers
and executors). Spark: ResourceProfile.calculateOverHeadMemory, JavaUtils.byteStringAs, BasicDriverFeatureStep and
BasicExecutorFeatureStep of resource-managers/kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import nearest, reference_to
from sunkpy.core.gang.families.declaration import BadDeclaration, Template, about, at_least, make, required
from sunkpy.core.gang.gang import Family, Gang, Link, Owners, Role, Suspension, by_seniority, solo
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.job.options import read_options
from sunkpy.core.model import quantity
from sunkpy.core.model.objects import Container, Kind, Pod, PodSpec, Resources, Wire

SPARK_APPLICATION: Final = Kind(group="sparkoperator.k8s.io", kind="SparkApplication")

ROLE: Final = "spark-role"
SELECTOR: Final = "spark-app-selector"
APP_NAME: Final = "sparkoperator.k8s.io/app-name"
SUBMISSION: Final = "sparkoperator.k8s.io/submission-id"

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"

_CONTAINERS: Final = {DRIVER: "spark-kubernetes-driver", EXECUTOR: "spark-kubernetes-executor"}
_DEFAULT_INSTANCES: Final = 2
_DEFAULT_MEMORY: Final = "1g"
_LEAST_OVERHEAD_MIB: Final = 384
_OVERHEAD_FACTOR: Final = "0.1"
_OVERHEAD_FACTOR_NOT_JVM: Final = "0.4"

_SIZE: Final = re.compile(r"^([0-9]{1,15})(b|[kmgtp]b?)?$")
_UNIT_KIB: Final = {"k": 1, "m": 2**10, "g": 2**20, "t": 2**30, "p": 2**40}


class _Gpu(Wire, frozen=True, kw_only=True):
    name: str = ""
    quantity: int = 0


class _PodSpec(Wire, frozen=True, kw_only=True):
    """What a SparkApplication says of its driver or of its executors. `instances` counts only for executors."""

    cores: int | None = None
    core_request: str | None = None
    memory: str | None = None
    memory_overhead: str | None = None
    gpu: _Gpu | None = None
    instances: int | None = None
    template: Template | None = None
    node_selector: dict[str, str] | None = None


class _Dynamic(Wire, frozen=True, kw_only=True):
    enabled: bool = False
    initial_executors: int | None = None
    min_executors: int | None = None
    max_executors: int | None = None


class _Restart(Wire, frozen=True, kw_only=True):
    type: str = "Never"
    on_failure_retries: int | None = None


class _Application(Wire, frozen=True, kw_only=True):
    type: str = ""
    mode: str = "cluster"
    spark_conf: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    memory_overhead_factor: str | None = None
    restart_policy: _Restart = _Restart()
    driver: _PodSpec = _PodSpec()
    executor: _PodSpec = _PodSpec()
    dynamic_allocation: _Dynamic | None = None

    @property
    def conf(self) -> Mapping[str, str]:
        """The `spark.…` properties of the application. If a field of the spec says the same, the field takes
        precedence.
        """
        return self.spark_conf or {}


def _refers(pod: Pod) -> tuple[Link, ...]:
    if not _is_spark(pod) or not (name := pod.labels.get(APP_NAME)):
        return ()
    return (Link(kind=SPARK_APPLICATION, namespace=pod.metadata.namespace, name=name),)


def _is_spark(pod: Pod) -> bool:
    return pod.labels.get(ROLE) in (DRIVER, EXECUTOR) and SELECTOR in pod.labels


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    if not _is_spark(pod):
        return None
    name, uid = _application(pod, owners)
    if not uid:
        return GangId(namespace=pod.metadata.namespace, name=pod.name, uid=pod.uid)
    generation = token(pod.labels.get(SUBMISSION, ""))
    return GangId(namespace=pod.metadata.namespace, name=name, uid=uid, generation=generation)


def _application(pod: Pod, owners: Owners) -> tuple[str, str]:
    """Return name and uid of the SparkApplication to which the pod belongs; both are empty if there is none. The pod's
    owner reference decides (the driver has one, and since operator 2.5 executors have one, too). Without it, the
    SparkApplication counts that the pod's label names.
    """
    if reference := reference_to(pod, SPARK_APPLICATION):
        return reference.name, reference.uid
    owner = nearest(owners, SPARK_APPLICATION)
    return (owner.name, owner.uid) if owner is not None else ("", "")


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    if id.uid == pods[0].uid:
        return _submitted_by_hand(id, pods[0], owners)
    called = f"SparkApplication {id.namespace}/{id.name}"
    application = required(owners, SPARK_APPLICATION, called=called)
    spec = application.spec_as(_Application)
    with about(called):
        roles = _roles(spec, pods)
    gang = make(Gang(id=id, roles=roles, kind=called), owners)
    final = _final_because(called, spec)
    return msgspec.structs.replace(gang, final_because=final, suspension=Suspension(owner=application))


def _submitted_by_hand(id: GangId, pod: Pod, owners: Owners) -> Gang:
    options, problems = read_options([(pod.name, pod.annotations)], [owner.annotations for owner in owners])
    return msgspec.structs.replace(
        solo(id, pod, options, problems),
        kind=f"Spark {pod.labels[ROLE]} {'/'.join(pod.key)}",
        final_because="spark-submit makes no driver again" if pod.labels[ROLE] == DRIVER else "",
    )


def _roles(spec: _Application, pods: Sequence[Pod]) -> tuple[Role, ...]:
    drivers = [pod for pod in pods if pod.labels.get(ROLE) == DRIVER]
    executors = [pod for pod in pods if pod.labels.get(ROLE) == EXECUTOR]
    in_pod = spec.mode in ("", "cluster")
    # Without a driver pod the job begins with the first executor, even if the spec wants none at the start.
    seats = _initial_executors(spec) if in_pod else max(1, _initial_executors(spec))
    later = Role(
        name=EXECUTOR,
        seats=seats,
        first=0 if in_pod else 1,
        members=by_seniority(executors, seats),
        shape=_shape(spec, EXECUTOR),
        decides=not in_pod,
    )
    if not in_pod:
        return (later,)
    driver = Role(name=DRIVER, seats=1, first=1, members=by_seniority(drivers, 1), shape=_shape(spec, DRIVER))
    return (driver, later)


def _initial_executors(spec: _Application) -> int:
    """Return with how many executors the driver starts, computed as spark-operator does (GetInitialExecutorNumber)."""
    instances = _count(spec.executor.instances, spec.conf, "executor.instances")
    dynamic = spec.dynamic_allocation or _Dynamic(
        enabled=spec.conf.get("spark.dynamicAllocation.enabled", "").lower() == "true"
    )
    if not dynamic.enabled:
        number = _DEFAULT_INSTANCES if instances is None else instances
        return at_least(number, 1, field="executor.instances, without dynamic allocation,")
    least = _count(dynamic.min_executors, spec.conf, "dynamicAllocation.minExecutors") or 0
    most = _count(dynamic.max_executors, spec.conf, "dynamicAllocation.maxExecutors")
    if most is not None and least > most:
        raise BadDeclaration(f"dynamicAllocation.minExecutors {least} is above dynamicAllocation.maxExecutors {most}")
    return max(
        least, instances or 0, _count(dynamic.initial_executors, spec.conf, "dynamicAllocation.initialExecutors") or 0
    )


def _count(declared: int | None, conf: Mapping[str, str], name: str) -> int | None:
    text = conf.get(f"spark.{name}")
    if declared is None and text is not None:
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise BadDeclaration(f"sparkConf spark.{name}: {text[:40]!r} is not a number")
        declared = int(text)
    return declared if declared is None else at_least(declared, 0, field=name)


def _shape(spec: _Application, role: str) -> PodSpec:
    """Return the spec that a pod of this role (driver or executor) will have, as Spark and the operator's webhook write
    it.
    """
    declared = spec.driver if role == DRIVER else spec.executor
    template = declared.template.shape if declared.template is not None else PodSpec()
    name = _CONTAINERS[role]
    others = tuple(container for container in template.containers if container.name != name)
    memory = f"{_memory_mib(spec, declared, role)}Mi"
    gpu = declared.gpu or _Gpu()
    gpus = {gpu.name: str(gpu.quantity)} if gpu.name and gpu.quantity > 0 else {}
    own = Container(
        name=name, resources=Resources(requests={"cpu": _cpu(spec, declared, role), "memory": memory}, limits=gpus)
    )
    selector = {**template.node_selector, **(spec.node_selector or {}), **(declared.node_selector or {})}
    return msgspec.structs.replace(template, containers=(own, *others), node_selector=selector)


def _cpu(spec: _Application, declared: _PodSpec, role: str) -> str:
    cores = spec.conf.get(f"spark.{role}.cores", "1")
    if declared.cores is not None:
        cores = str(at_least(declared.cores, 1, field=f"{role}.cores"))
    text = declared.core_request or spec.conf.get(f"spark.kubernetes.{role}.request.cores") or cores
    try:
        quantity.parse(text)
    except quantity.BadQuantity as error:
        raise BadDeclaration(f"{role}.coreRequest: {error}") from error
    return text


def _memory_mib(spec: _Application, declared: _PodSpec, role: str) -> int:
    conf = spec.conf
    heap = _mib(declared.memory or conf.get(f"spark.{role}.memory") or _DEFAULT_MEMORY, f"{role}.memory")
    explicit = declared.memory_overhead or conf.get(f"spark.{role}.memoryOverhead")
    if explicit:
        overhead = _mib(explicit, f"{role}.memoryOverhead")
    else:
        overhead = max(int(_factor(spec, role) * heap), _LEAST_OVERHEAD_MIB)
    return heap + overhead + (_beside_the_heap_mib(spec) if role == EXECUTOR else 0)


def _factor(spec: _Application, role: str) -> Decimal:
    """Return the memory overhead of a driver or executor as a share of its heap. Without a setting, it is larger for
    Python and R programs than for Java's (BasicDriverFeatureStep).

    Raises:
        BadDeclaration: the setting is not a number.
    """
    default = _OVERHEAD_FACTOR_NOT_JVM if spec.type in ("Python", "R") else _OVERHEAD_FACTOR
    name = "memoryOverheadFactor"
    general = spec.memory_overhead_factor or spec.conf.get(f"spark.kubernetes.{name}")
    text = spec.conf.get(f"spark.{role}.{name}") or general or default
    if not re.fullmatch(r"[0-9]{0,3}(\.[0-9]+)?", text) or text == ".":
        raise BadDeclaration(f"{name}: {text[:40]!r} is not a factor such as 0.1")
    return Decimal(text)


def _beside_the_heap_mib(spec: _Application) -> int:
    """Return the memory of an executor in MiB that is neither heap nor overhead: off-heap memory, and the memory of
    Python.
    """
    off_heap = spec.conf.get("spark.memory.offHeap.size", "0")
    if spec.conf.get("spark.memory.offHeap.enabled", "").lower() != "true":
        off_heap = "0"
    elif off_heap.isdigit():
        off_heap += "b"
    python = spec.conf.get("spark.executor.pyspark.memory", "0") if spec.type == "Python" else "0"
    return _mib(off_heap, "spark.memory.offHeap.size") + _mib(python, "spark.executor.pyspark.memory")


def _mib(text: str, field: str) -> int:
    """Return a size of memory in MiB, rounded up, from a text in Java's notation, such as `2g`. A number without a unit
    is in MiB. `field`: where the text is, for the message.

    Raises:
        BadDeclaration: the text is no such size.
    """
    match = _SIZE.match(text.strip().lower())
    if match is None:
        raise BadDeclaration(f"{field}: {text[:40]!r} is not a size as Java writes it, such as 512m or 2g")
    number, unit = int(match[1]), match[2] or "m"
    size_bytes = number if unit == "b" else number * _UNIT_KIB[unit[0]] * 1024
    return quantity.mib_up(size_bytes)


def _final_because(called: str, spec: _Application) -> str:
    restart = spec.restart_policy
    if restart.type == "Always" or (restart.type == "OnFailure" and (restart.on_failure_retries or 0) > 0):
        return ""
    return f"{called} ends when its driver does: restartPolicy is {restart.type or 'Never'} and allows no retry"


FAMILY = Family(
    name="Spark",
    known_by="labels spark-role and spark-app-selector",
    identify=_identify,
    assemble=_assemble,
    reads=(SPARK_APPLICATION,),
    refers=_refers,
)
