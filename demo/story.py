"""The steps of the demo: each does what a user can do, checks the result, and returns a summary."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from demo import person, slurm_text, workload
from demo.report import Tell
from demo.stack import JOBS, USER, Stack
from demo.watch import Watch, watching
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Node, Pod

_FOLDER: Final = "demo"


class NotSo(Exception):
    """A check of the demo failed."""


Step = Callable[[Stack, Tell], str]


def check(true: bool, otherwise: str) -> None:
    """Check a condition.

    Raises:
        NotSo: `true` is false; the text is `otherwise`.
    """
    if not true:
        raise NotSo(otherwise)


# ----------------------------------------------------------------------------------------------- 2 NodeSet


def step_nodeset(stack: Stack, tell: Tell) -> str:
    """A NodeSet puts one slurmd pod on each node; they register and go Ready."""
    pods = wait(lambda: _pods_all_ready(stack), timeout_s=120, what="one Ready slurmd pod on each feasible node")
    for pod in pods:
        tell(f"pod {pod.name} on node {pod.spec.node_name}: Ready, {pod.annotations.get(names.ANNOTATION_SLURM_STATE)}")
    on = [pod.spec.node_name for pod in pods]
    check(len(set(on)) == len(on), f"two slurmd pods on one node: {sorted(on)}")
    slurm = stack.slurm_nodes()
    check(set(slurm) == {pod.name for pod in pods}, f"Slurm knows {sorted(slurm)}, the pods are {sorted(on)}")
    labelled = {node.labels.get(names.LABEL_POD): node.name for node in stack.nodes()}
    check(labelled == dict(zip((p.name for p in pods), on, strict=True)), f"labels of the nodes say {labelled}")
    tell(stack.sinfo().strip().replace("\n", " | "))
    return f"{len(pods)} slurmd pods, one per node, registered and Ready"


def _pods_all_ready(stack: Stack) -> Sequence[Pod]:
    status = stack.nodeset_status()
    desired, feasible, ready = status.desired_number_scheduled, status.number_feasible, status.number_ready
    pods = sorted(stack.slurmd_pods(), key=lambda pod: pod.name)
    up = [pod for pod in pods if pod.is_condition_true("Ready")]
    idle = [name for name, node in stack.slurm_nodes().items() if is_idle(node)]
    if not (desired and desired == feasible == ready == len(pods) == len(up) == len(idle)):
        raise NotYet(
            f"desired {desired}, feasible {feasible}, ready {ready}; pods {len(pods)}, of them Ready {len(up)}; "
            f"idle in Slurm {len(idle)}"
        )
    return pods


def is_idle(node: Mapping[str, str]) -> bool:
    """True if the Slurm node responds, runs nothing and is not drained.

    `scontrol` marks dynamic nodes as DYNAMIC_NORM, and nodes that backfill has kept for a job as PLANNED, up to half a
    minute after that job is gone.
    """
    return slurm_text.node_flags(node) - {"DYNAMIC_NORM", "PLANNED"} == {"IDLE"} and "*" not in node["State"]


def is_live(job: Mapping[str, str]) -> bool:
    """True if the job waits, runs, or its Epilog still holds nodes."""
    return job["JobState"] in ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING")


# ------------------------------------------------------------------------------------------------ 3 sbatch


def step_sbatch(stack: Stack, tell: Tell) -> str:
    """An array job and a job over all nodes, submitted from the login pod; their output is read back."""
    wide = len(stack.slurm_nodes())
    stack.login(f"rm -rf {_FOLDER} && mkdir {_FOLDER}")
    array = _sbatch(
        stack, "--array=0-5", "--output=array-%a.out", script='echo "task $SLURM_ARRAY_TASK_ID on $SLURMD_NODENAME"'
    )
    tell(f"job {array}: array of 6 submitted by {USER}")
    together = _sbatch(
        stack, f"--nodes={wide}", "--ntasks-per-node=1", "--output=wide.out", script="srun --label hostname"
    )
    tell(f"job {together}: {wide} nodes")
    ended = wait(lambda: _completed(stack, [array, together]), timeout_s=60, what="both jobs COMPLETED")
    lines = stack.login(f"cat {_FOLDER}/array-*.out").splitlines()
    tasks = sorted(int(line.split()[1]) for line in lines)
    check(tasks == list(range(6)), f"output of the array job: {lines}")
    hosts = {line.split(": ")[1] for line in stack.login(f"cat {_FOLDER}/wide.out").splitlines()}
    check(hosts == set(stack.slurm_nodes()), f"the {wide}-node job ran on {sorted(hosts)}")
    tell(f"array tasks ran on {', '.join(sorted({line.split()[-1] for line in lines}))}; output read back")
    check_srun(stack, tell)
    return f"{len(ended)} jobs COMPLETED; array of 6 and {wide} nodes, output read back; srun answers"


def check_srun(stack: Stack, tell: Tell) -> None:
    """Run srun on all nodes from the login pod, and check that each node answers and is free again at once.

    Raises:
        NotSo, NeverSo: a node does not answer, or stays busy, because Slurm cannot reach the login pod.
    """
    wanted = sorted(stack.slurm_nodes())
    start_s = time.time()
    out = stack.login(f"srun --job-name={JOBS} --nodes={len(wanted)} --ntasks-per-node=1 hostname")
    check(sorted(out.split()) == wanted, f"srun answered {out.split()}, the nodes are {wanted}")
    tell(f"srun answered from {len(wanted)} nodes after {time.time() - start_s:.1f} s")
    wait(lambda: all(map(is_idle, stack.slurm_nodes().values())), timeout_s=10, what="nodes idle after srun")


def _completed(stack: Stack, ids: Sequence[int]) -> Sequence[Mapping[str, str]]:
    """Return the records of these jobs with their array tasks; raise NotYet until each has completed."""
    mine = [job for id_, job in stack.jobs().items() if id_ in ids or int(job.get("ArrayJobId", "0").split()[0]) in ids]
    open_ = [f"{job['JobId']} {job['JobState']} {job.get('Reason')}" for job in mine if job["JobState"] != "COMPLETED"]
    if open_ or not mine:
        raise NotYet("; ".join(open_) or "Slurm knows none of them")
    return mine


def _sbatch(stack: Stack, *args: str, script: str) -> int:
    return stack.sbatch(f"--job-name={JOBS}", f"--chdir=/home/{USER}/{_FOLDER}", *args, script=script)


# -------------------------------------------------------------------------------------------- 4 Deployment


def step_deployment(stack: Stack, tell: Tell) -> str:
    """Inference pods with Slurm as their scheduler run where Slurm placed their jobs, with the GPUs of these jobs."""
    replicas = replicas_for(stack)
    start_s = time.time()
    stack.kubectl.apply(
        workload.namespace(workload.NAMESPACE),
        *workload.inference(image=stack.images["sunkpy"], replicas=replicas, scheduler_name=stack.scheduler_name),
    )
    pods = wait(lambda: ready_inference(stack, replicas), timeout_s=90, what=f"{replicas} inference pods Ready")
    tell(f"{replicas} pods Ready {time.time() - start_s:.1f} s after `kubectl apply`")
    given = check_placement(stack, pods, tell)
    seen = wait(lambda: _who_answers(stack, pods), timeout_s=30, what="every pod answers through the Service")
    tell(f"http://{workload.INFERENCE}.{workload.NAMESPACE} answered from {len(seen)} pods")
    told = f"{replicas} pods became {replicas} Slurm jobs, on the nodes that Slurm chose, and answer HTTP"
    if not stack.has_device_plugin:
        return f"{told}; each has its node alone"
    check_gpus(given, seen)
    together = check_sharing(pods, given)
    for name in together:
        tell(f"pod {name} says that it has {seen[name]}")
    return f"{told}; {' and '.join(together)} share a node, each with the GPU of its job"


def replicas_for(stack: Stack) -> int:
    """Return the number of inference pods: one more than nodes, so that two share a node; or one per node, if pods get
    whole nodes.
    """
    return len(stack.slurm_nodes()) + stack.has_device_plugin


def check_gpus(given: Mapping[str, Sequence[int]], seen: Mapping[str, str]) -> None:
    """Check that each pod reports the GPUs (`seen`) that Slurm gave its job (`given`).

    Raises:
        NotSo: a pod reports other GPUs.
    """
    for name, indices in given.items():
        wanted = ",".join(f"gpu{index}" for index in indices)
        check(seen[name] == wanted, f"pod {name} has {seen[name] or 'no GPU'}, Slurm gave {wanted} to its job")


def check_sharing(pods: Sequence[Pod], given: Mapping[str, Sequence[int]]) -> Sequence[str]:
    """Return the names of pods that share a node, after a check that no GPU has two pods.

    Raises:
        NotSo: two pods have the same GPU, or no node has two pods.
    """
    on: dict[str, list[str]] = {}
    for pod in pods:
        on.setdefault(pod.spec.node_name, []).append(pod.name)
    for node, names_ in on.items():
        owned = sorted(index for name in names_ for index in given[name])
        check(len(set(owned)) == len(owned), f"of the pods {names_} on {node} two have the same GPU: {owned}")
    together = next((names_ for names_ in on.values() if len(names_) > 1), [])
    check(bool(together), f"no two pods share a node: {on}")
    return together


def ready_inference(stack: Stack, replicas: int) -> Sequence[Pod]:
    """Return the inference pods; raise NotYet unless exactly `replicas` exist and all are Ready."""
    pods = stack.kubectl.list(Pod, "pods", "-n", workload.NAMESPACE, "-l", f"app={workload.INFERENCE}")
    pods = [pod for pod in pods if not pod.is_deleting and not pod.is_finished]
    up = [pod for pod in pods if pod.is_condition_true("Ready")]
    if not len(up) == len(pods) == replicas:
        raise NotYet("; ".join(_pod_line(pod) for pod in pods) or "no pods")
    return pods


def _pod_line(pod: Pod) -> str:
    scheduled = pod.condition("PodScheduled")
    why = f" ({scheduled.message})" if scheduled is not None and scheduled.message else ""
    return f"{pod.name} {pod.status.phase} on {pod.spec.node_name or 'no node'}{why}"


def check_placement(stack: Stack, pods: Sequence[Pod], tell: Tell) -> Mapping[str, Sequence[int]]:
    """Check that each pod is on the node of its Slurm job; return the GPU indices of each pod's job.

    Raises:
        NotSo: Slurm and Kubernetes disagree.
    """
    jobs = stack.jobs()
    k8s_node_of = {pod.name: pod.spec.node_name for pod in stack.slurmd_pods()}
    given: dict[str, Sequence[int]] = {}
    for pod in pods:
        job_id = int(pod.annotations.get(names.ANNOTATION_JOB_ID, "0"))
        job = jobs.get(job_id)
        if job is None:
            raise NotSo(f"pod {pod.name} names job {job_id or 'none'}, which Slurm does not know")
        check(job["JobState"] == "RUNNING", f"pod {pod.name} runs, its job {job_id} is {job['JobState']}")
        placed = hostlist.expand(job["NodeList"])
        where = [k8s_node_of.get(name) for name in placed]
        check(where == [pod.spec.node_name], f"job {job_id} is on {placed} = {where}, pod on {pod.spec.node_name}")
        held = given[pod.name] = slurm_text.gres_indices(job.get("GRES", ""))
        enough = len(held) == 1 if stack.has_device_plugin else bool(held)
        check(enough, f"job {job_id} holds GPUs {held} (GRES {job.get('GRES')}), the pod asked for 1")
        tell(f"pod {pod.name} = job {job_id} on {placed[0]} = {pod.spec.node_name}, GPU {', '.join(map(str, held))}")
    in_slurm = sum(slurm_text.gres_count(node.get("GresUsed", ""), "gpu") for node in stack.slurm_nodes().values())
    gpus = sum(map(len, given.values()))
    check(in_slurm == gpus, f"Slurm has given {in_slurm} GPUs away, the pods hold {gpus}")
    return given


def _who_answers(stack: Stack, pods: Sequence[Pod]) -> Mapping[str, str]:
    """Return the GPUs that each pod reports over HTTP; raise NotYet until all pods have answered."""
    url = f"http://{workload.INFERENCE}.{workload.NAMESPACE}/"
    many = " ".join([url] * 4 * len(pods))
    out = stack.login(f"curl -sS --fail --max-time 5 --no-keepalive -w '\\n' {many}")
    answers = [json.loads(line) for line in out.splitlines() if line]
    answered = {str(answer["pod"]): str(answer["gpu"]) for answer in answers}
    missing = {pod.name for pod in pods} - answered.keys()
    if missing:
        raise NotYet(f"answered: {sorted(answered)}; silent: {sorted(missing)}")
    return answered


# -------------------------------------------------------------------------------------------- 5 preemption


def step_preemption(stack: Stack, tell: Tell) -> str:
    """A job in a higher partition takes the nodes: pods end first, then the job starts; then the pods come back."""
    wide, replicas = len(stack.slurm_nodes()), replicas_for(stack)
    before = ready_inference(stack, replicas)
    skew_s = stack.clock_skew_s()
    path = f"/api/v1/namespaces/{workload.NAMESPACE}/pods"
    with watching(stack, Pod, path, label_selector=f"app={workload.INFERENCE}") as watch:
        submitted_s = time.time()
        job_id = _sbatch(
            stack,
            "--partition=high",
            "--exclusive",
            f"--nodes={wide}",
            "--output=high.out",
            script="date +%s.%N\nsleep 4",
        )
        tell(f"job {job_id} in partition high asks for all {wide} nodes")
        # The kubelet removes the pod object last, after containers, sandbox, cgroups and volumes.
        ends = [watch.end_of(pod.name, timeout_s=60) for pod in before]
        for pod, end in zip(before, ends, strict=True):
            _check_eviction(stack, pod, end.object, job_id)
            tell(f"pod {pod.name} evicted and gone {end.at_s - submitted_s:.1f} s after sbatch")
        stack.wait_for_job(job_id, "RUNNING", "COMPLETED", timeout_s=60)
        started_s = wait(lambda: _first_number(stack, "high.out"), timeout_s=60, what="the job's first line") - skew_s
        gap_s = started_s - max(end.at_s for end in ends)
        check(gap_s >= 0, f"job {job_id} started {-gap_s:.3f} s before the last pod was gone")
        tell(f"job {job_id} started {gap_s * 1000:.0f} ms after the last pod was gone")
        stack.wait_for_job(job_id, "COMPLETED", timeout_s=60)
        after = wait(lambda: ready_inference(stack, replicas), timeout_s=60, what="the Deployment's new pods Ready")
    check(not {p.uid for p in before} & {p.uid for p in after}, "an evicted pod is back under its old uid")
    check_placement(stack, after, tell)
    return (
        f"job {job_id} preempted {replicas} pods and started {gap_s * 1000:.0f} ms after the last; "
        f"{replicas} new pods run"
    )


def _check_eviction(stack: Stack, pod: Pod, last: Pod, job_id: int) -> None:
    """Check that the evicted pod has the condition DisruptionTarget, and an Event that names the preempting job."""
    check(last.is_condition_true("DisruptionTarget"), f"evicted pod {pod.name} has no condition DisruptionTarget")
    # The scheduler finds that job after the hand-over.
    wait(lambda: _names_job(stack, pod, job_id), timeout_s=20, what=f"an Event of {pod.name} that names job {job_id}")


def _names_job(stack: Stack, pod: Pod, job_id: int) -> bool:
    told = stack.events(workload.NAMESPACE, pod.name)
    if not any(f"job {job_id}" in line for line in told):
        raise NotYet("; ".join(told))
    return True


def _first_number(stack: Stack, file: str) -> float:
    return float(stack.login(f"head -n1 {_FOLDER}/{file}").strip() or 0)


# ------------------------------------------------------------------------------------------------ 6 drains


def step_drains(stack: Stack, tell: Tell) -> str:
    """A cordon becomes a drain in Slurm; a drain in Slurm shows on pod and node; both are lifted again."""
    pod = sorted(stack.slurmd_pods(), key=lambda pod: pod.name)[0]
    cordon_s, uncordon_s = _cordon_and_uncordon(stack, pod, tell)
    drain_s, resume_s = _drain_and_resume(stack, pod, tell)
    return (
        f"cordon → Slurm drain {cordon_s:.2f} s, uncordon → lifted {uncordon_s:.2f} s; "
        f"Slurm drain → node cordoned {drain_s:.2f} s, resume → lifted {resume_s:.2f} s"
    )


def _cordon_and_uncordon(stack: Stack, pod: Pod, tell: Tell) -> tuple[float, float]:
    node, skew_s = pod.spec.node_name, stack.clock_skew_s()
    drained = stack.when_slurm_node(pod.name, r"State=[^ ]*DRAIN.*Reason=k8s: cordon")
    start_s = time.time()
    stack.kubectl("cordon", node)
    cordon_s = drained.time_s() - skew_s - start_s
    reason = stack.slurm_nodes()[pod.name].get("Reason", "")
    tell(f"kubectl cordon {node}: Slurm drains {pod.name} after {cordon_s:.2f} s, reason {reason!r}")
    lifted = stack.when_slurm_node(pod.name, r"State=(IDLE|MIXED|ALLOCATED)(\+(DYNAMIC_NORM|PLANNED))* ")
    start_s = time.time()
    stack.kubectl("uncordon", node)
    uncordon_s = lifted.time_s() - skew_s - start_s
    tell(f"kubectl uncordon {node}: drain lifted after {uncordon_s:.2f} s")
    return cordon_s, uncordon_s


def _drain_and_resume(stack: Stack, pod: Pod, tell: Tell) -> tuple[float, float]:
    reason, node = "demo: bad fan", pod.spec.node_name
    with watching(stack, Node, "/api/v1/nodes") as nodes:
        start_s = time.time()
        stack.scontrol("update", f"nodename={pod.name}", "state=drain", f"reason={reason}")
        cordoned = nodes.first(
            lambda seen: seen.object.name == node and seen.object.spec.unschedulable and seen.at_s > start_s,
            timeout_s=20,
            what=f"node {node} cordoned",
        )
        _check_drain_shows(stack, pod, cordoned.object, reason)
        tell(f"scontrol drain {pod.name}: node {node} cordoned after {cordoned.at_s - start_s:.2f} s, says {reason!r}")
        resumed_s = time.time()
        stack.scontrol("update", f"nodename={pod.name}", "state=resume")
        freed = nodes.first(
            lambda seen: seen.object.name == node and not seen.object.spec.unschedulable and seen.at_s > resumed_s,
            timeout_s=20,
            what=f"node {node} free again",
        )
        check(names.ANNOTATION_CORDONED_BY not in freed.object.annotations, f"node {node} still says cordoned-by")
        tell(f"scontrol resume {pod.name}: node {node} free after {freed.at_s - resumed_s:.2f} s")
    return cordoned.at_s - start_s, freed.at_s - resumed_s


def _check_drain_shows(stack: Stack, pod: Pod, node: Node, reason: str) -> None:
    check(
        node.annotations.get(names.ANNOTATION_CORDONED_BY) == names.CORDONED_BY_SLURM,
        f"node {node.name} is cordoned, but not marked as ours: {node.annotations}",
    )

    def shown() -> bool:
        now = stack.kubectl.get(Pod, "pod", pod.name, "-n", stack.namespace)
        of_node = stack.kubectl.get(Node, "node", node.name).condition(names.CONDITION_CORDON)
        of_pod = now.condition(names.CONDITION_CORDON)
        for holder, condition in (("pod", of_pod), ("node", of_node)):
            if condition is None or condition.status != "True" or reason not in condition.message:
                raise NotYet(f"{names.CONDITION_CORDON} of the {holder}: {condition}")
        return True

    wait(shown, timeout_s=10, what=f"{reason!r} on pod {pod.name} and node {node.name}")


# -------------------------------------------------------------------------------------------- 7 scale down


def step_scale_down(stack: Stack, tell: Tell) -> str:
    """Scale down by one while a job runs on every node: the job ends first, then the pod and the Slurm node go."""
    wide, nodeset, skew_s = len(stack.slurm_nodes()), stack.nodeset, stack.clock_skew_s()
    stop_inference(stack)
    stack.login(f"mkdir -p {_FOLDER} && rm -f {_FOLDER}/end {_FOLDER}/last.out")
    script = "for _ in {1..600}; do [ ! -e end ] || break; sleep 0.2; done\ndate +%s.%N"
    job_id = _sbatch(stack, "--exclusive", f"--nodes={wide}", "--output=last.out", script=script)
    stack.wait_for_job(job_id, "RUNNING", timeout_s=60)
    tell(f"job {job_id} runs on all {wide} nodes")
    path = f"/api/v1/namespaces/{stack.namespace}/pods"
    with watching(stack, Pod, path, label_selector=f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}") as watch:
        stack.kubectl("scale", "nodeset", nodeset, "-n", stack.namespace, f"--replicas={wide - 1}")
        victim = _marked(watch)
        tell(f"kubectl scale nodeset {nodeset} --replicas={wide - 1}: {victim.name} is to go, and waits for its job")
        stack.when_slurm_node(victim.name, r"DRAIN.*Reason=k8s: pod pending deletion").time_s()
        gone = stack.when_slurm_node(victim.name, "not found", timeout_s=120)
        stack.login(f"touch {_FOLDER}/end")
        stack.wait_for_job(job_id, "COMPLETED", timeout_s=60)
        job_end_s = _first_number(stack, "last.out") - skew_s
        pod_end = watch.end_of(victim.name, timeout_s=90)
    node_end_s = gone.time_s() - skew_s
    check(pod_end.at_s > job_end_s, f"pod {victim.name} went {job_end_s - pod_end.at_s:.2f} s before its job ended")
    pod_after_s, node_after_s = pod_end.at_s - job_end_s, node_end_s - job_end_s
    tell(f"job {job_id} COMPLETED; pod gone {pod_after_s:.1f} s, Slurm node {node_after_s:.1f} s later")
    left = wait(lambda: _left(stack, wide - 1), timeout_s=30, what=f"{wide - 1} nodes on both sides")
    check(victim.name not in left, f"{victim.name} is still in Slurm: {sorted(left)}")
    restore(stack)
    tell(f"NodeSet {nodeset} has all its {wide} nodes again")
    return f"job {job_id} ended first; {victim.name} went, pod {pod_after_s:.1f} s, node {node_after_s:.1f} s later"


def _marked(watch: Watch[Pod]) -> Pod:
    seen = watch.first(
        lambda seen: names.ANNOTATION_PENDING_DELETION in seen.object.annotations,
        timeout_s=20,
        what="a slurmd pod marked as pending deletion",
    )
    return seen.object


def _left(stack: Stack, count: int) -> set[str]:
    slurm, pods = set(stack.slurm_nodes()), {pod.name for pod in stack.slurmd_pods()}
    if slurm != pods or len(slurm) != count:
        raise NotYet(f"Slurm: {sorted(slurm)}, pods: {sorted(pods)}")
    return slurm


# ------------------------------------------------------------------------------------------------- 8 a person


def step_person(stack: Stack, tell: Tell) -> str:
    """Ann logs in by ssh with her key; her batch job and her pod are both hers, in sacct and in her fair share."""
    errand = workload.errand(
        person.NAMESPACE, image=stack.images["sunkpy"], account=person.ACCOUNT, scheduler_name=stack.scheduler_name
    )
    with person.logged_in(stack) as ann:
        tell(f"ssh {person.NAME}@…: {ann('id')}")
        used_s = _usage_s(ann)
        options = f"--parsable --job-name={JOBS} --account={person.ACCOUNT} --output=errand.out"
        batch = int(ann(f"sbatch {options} --wrap 'sleep 2; id -un'"))
        stack.kubectl.apply(workload.namespace(person.NAMESPACE), errand)
        pod = wait(lambda: _finished(stack, person.NAMESPACE), timeout_s=90, what=f"the pod of {person.NAME} has ended")
        jobs = (batch, int(pod.annotations[names.ANNOTATION_JOB_ID]))
        listed = wait(lambda: _accounted(ann, jobs), timeout_s=60, what="both jobs COMPLETED in sacct")
        check(ann("cat errand.out") == person.NAME, "the batch job did not run as its owner")
        for line in listed:
            tell(f"sacct: {line}")
        more_s = _usage_s(ann) - used_s
        check(more_s > 0, f"sshare says that {person.NAME} has used nothing")
    leave(stack)
    return f"job {batch} of sbatch and job {jobs[1]} of a pod are {person.NAME}'s; {more_s} s of cpu in her share"


def _finished(stack: Stack, namespace: str) -> Pod:
    pod = stack.kubectl.get(Pod, "pod", workload.ERRAND, "-n", namespace)
    if pod.status.phase != "Succeeded":
        raise NotYet(_pod_line(pod))
    return pod


def _accounted(ann: person.Say, jobs: Sequence[int]) -> Sequence[str]:
    """Return Ann's sacct lines of these jobs; raise NotYet until all have completed."""
    listed = ann(f"sacct -nXP -o jobid,user,account,state -j {','.join(map(str, jobs))}").splitlines()
    wanted = {f"{job}|{person.NAME}|{person.ACCOUNT}|COMPLETED" for job in jobs}
    if set(listed) != wanted:
        raise NotYet("; ".join(listed))
    return listed


def _usage_s(ann: person.Say) -> int:
    """Return the CPU seconds that Ann's fair share counts."""
    return int(ann(f"sshare -nPU --format=account,rawusage -A {person.ACCOUNT}").split("|")[-1])


def leave(stack: Stack) -> None:
    """Delete Ann's pod."""
    stack.kubectl("delete", "pod", workload.ERRAND, "-n", person.NAMESPACE, "--ignore-not-found", "--wait")


# ------------------------------------------------------------------------------------------ before, between


def stop_inference(stack: Stack) -> None:
    """Delete the inference pods; their jobs end with them."""
    stack.kubectl("delete", "deployment", workload.INFERENCE, "-n", workload.NAMESPACE, "--ignore-not-found", "--wait")

    def none_left() -> bool:
        pods = stack.kubectl.list(Pod, "pods", "-n", workload.NAMESPACE)
        jobs = stack.squeue("--user=k8s", "--format=%i %T").split("\n")
        if pods or any(jobs):
            raise NotYet(f"pods {[pod.name for pod in pods]}, jobs {jobs}")
        return True

    wait(none_left, timeout_s=60, what="no inference pod and no job of it")


def restore(stack: Stack) -> None:
    """Let the NodeSet use every feasible node again, and wait until all are Ready and idle."""
    stack.kubectl(
        "patch", "nodeset", stack.nodeset, "-n", stack.namespace, "--type=merge", "-p", '{"spec":{"replicas":null}}'
    )
    wait(lambda: _pods_all_ready(stack), timeout_s=120, what="every node back in the NodeSet, Ready and idle")


def reset(stack: Stack) -> None:
    """Remove jobs, pods, cordons and drains that an earlier run of the demo has left."""
    stack.admin("scancel", "--quiet", f"--name={JOBS}")
    for node in stack.nodes():
        if node.spec.unschedulable and names.ANNOTATION_CORDONED_BY not in node.annotations:
            stack.kubectl("uncordon", node.name)
    for name, record in stack.slurm_nodes().items():
        if record.get("Reason", "").startswith("demo: "):
            stack.scontrol("update", f"nodename={name}", "state=resume")
    stop_inference(stack)
    leave(stack)
    restore(stack)


STEPS: Final[Sequence[tuple[str, Step]]] = (
    ("2 one slurmd pod per node", step_nodeset),
    ("3 sbatch from the login pod", step_sbatch),
    ("4 inference pods scheduled by Slurm", step_deployment),
    ("5 preemption and hand-over", step_preemption),
    ("6 cordon and drain, both ways", step_drains),
    ("7 scale down under a running job", step_scale_down),
    ("8 a person, her job and her pod", step_person),
)
