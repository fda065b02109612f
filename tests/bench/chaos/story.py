"""The record of a run as a chronicle, and the worst violations with the events around them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.bench.chaos.judge import Violation
from tests.bench.chaos.record import Event, Owner, PodSeen, Record, SlurmLook

BEFORE_S = 60.0
AFTER_S = 15.0


def tell(record: Record, violations: Sequence[Violation], *, worst: int = 3) -> str:
    """Return all violations, one on each line, then the worst ones with their evidence and the events around them."""
    if not violations:
        return "Nothing happened that must not happen."
    lines = [f"{len(violations)} violations; times are seconds after the start."]
    lines += [f"  {each.at_s - record.started_s:7.1f}  {each.rule}: {each.text}" for each in violations]
    events = chronicle(record)
    for violation in told(violations, worst):
        lines += ["", *_scene(record, violation, events)]
    return "\n".join(lines)


def told(violations: Sequence[Violation], worst: int) -> Sequence[Violation]:
    """Return the worst violation of each rule, then the others, so that one frequent breach does not hide the rest."""
    first = {violation.rule: violation for violation in reversed(violations)}
    chosen = [violation for violation in violations if first[violation.rule] is violation]
    return [*chosen, *(violation for violation in violations if violation not in chosen)][:worst]


def _scene(record: Record, violation: Violation, events: Sequence[Event]) -> Iterator[str]:
    yield f"{violation.rule}: {violation.text}"
    yield from (f"  evidence: {line}" for line in violation.evidence)
    yield from (f"  fault: {line} (from the violation)" for line in violation.faults)
    from_s, until_s = violation.at_s - BEFORE_S, violation.until_s + AFTER_S
    for event in events:
        if from_s <= event.at_s <= until_s and event.node in ("", violation.node):
            mark = ">" if violation.at_s <= event.at_s <= violation.until_s else " "
            yield f"  {mark} {event.at_s - record.started_s:7.1f}  {event.text}"


def chronicle(record: Record) -> list[Event]:
    """Return all recorded events in order of time. Node names are those of Kubernetes."""
    kube_nodes = {slurm: kube for kube, slurm in record.slurm_nodes.items()}
    found = [
        *fault_events(record),
        *process_events(record),
        *slurm_events(record.looks, kube_nodes),
        *(
            Event(each.at_s, f"slurmd pod {each.pod} is deleted, uid {each.uid}", each.node)
            for each in record.deletions
        ),
        *(Event(each.at_s, _cordon_text(each.is_cordoned, each.cordoned_by), each.name) for each in record.cordons),
        *(Event(each.at_s, _pod_text(each), each.node or "-") for each in record.pods),
    ]
    return sorted(found, key=lambda event: event.at_s)


def fault_events(record: Record) -> Iterator[Event]:
    for fault in record.faults:
        node = fault.planned.target if fault.slurm_node else ""
        said = f" ({fault.said})" if fault.said else ""
        yield Event(fault.held_s, f"FAULT {fault.planned.text}{said}", node)
        if fault.mended_s is not None:
            yield Event(fault.mended_s, f"FAULT {fault.planned.text} is undone", node)


def process_events(record: Record) -> Iterator[Event]:
    """Yield when processes of an owner appeared on a node and when they were gone."""
    before: dict[tuple[str, Owner], tuple[int, ...]] = {}
    for sample in record.samples:
        now = {(each.node, each.owner): each.pids for each in sample.running}
        for node, owner in now.keys() - before.keys():
            yield Event(sample.at_s, f"processes of {owner.text}: {list(now[node, owner])}", node)
        for node, owner in before.keys() - now.keys():
            yield Event(sample.at_s, f"no process of {owner.text} any more", node)
        before = now


def slurm_events(looks: Sequence[SlurmLook], kube_nodes: Mapping[str, str]) -> Iterator[Event]:
    nodes: dict[str, str] = {}
    jobs: dict[int, tuple[str, str]] = {}
    for look in looks:
        for name in nodes.keys() | look.nodes.keys():
            record = look.nodes.get(name)
            text = "is unknown to Slurm" if record is None else f"{record['State']} {record.get('Reason', '')}".strip()
            if nodes.get(name) != text:
                nodes[name] = text
                yield Event(look.at_s, f"Slurm node {name} {text}", kube_nodes.get(name, name))
        for job_id, job in look.jobs.items():
            shown = (job["JobState"], job.get("NodeList", ""))
            if jobs.get(job_id) != shown:
                jobs[job_id] = shown
                where = kube_nodes.get(shown[1], "-")
                yield Event(look.at_s, f"job {job_id} {job.get('JobName')} {shown[0]} {shown[1]}", where)


def _cordon_text(is_cordoned: bool, cordoned_by: str) -> str:
    by = f" by {cordoned_by}" if cordoned_by else ""
    return f"Node is cordoned{by}" if is_cordoned else "Node is not cordoned"


def _pod_text(pod: PodSeen) -> str:
    told = " and told to go" if pod.is_deleting and pod.phase != "Gone" else ""
    job = f", job {pod.job}" if pod.job else ""
    return f"pod {pod.name} {pod.phase}{told}{job}" + (f": {pod.why}" if pod.why else "")
