"""A job of a person, explained with the words that the queue has for it."""

from __future__ import annotations

from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.explain.words import CURES
from sunkpy.core.model import hostlist
from sunkpy.core.overview.queue import QueuedJob, Waiting
from sunkpy.core.overview.table import count, printable


def explain_job(job: QueuedJob, waiting: Waiting | None, *, name: str) -> Explanation:
    """`waiting`: its place in the queue, while it is there. `name`: as the viewer may know it; a job of pods bears
    theirs.
    """
    row = job.row
    whose = f"{row.user}, account {row.account or '(none)'}, partition {row.partition}, QoS {job.qos or '(none)'}"
    asked = f"{count(max(row.min_nodes, len(row.nodes)), 'node')}, {count(job.gpus or row.gpus, 'GPU')}"
    lines = [Line(title="name", texts=(printable(name),)), Line(title="whose", texts=(printable(whose),))]
    lines.append(Line(title="asks for" if waiting is not None else "has", texts=(asked,)))
    if waiting is None:
        state = "+".join(sorted(row.state))
        lines.append(Line(title="nodes", texts=(hostlist.describe(row.nodes),) if row.nodes else ()))
        return Explanation(
            subject=f"Slurm job {row.id}", standing=f"is {state}", lines=tuple(lines), what_to_do="Nothing."
        )
    place = f"{waiting.place}, with priority {waiting.priority}, since {waiting.since or 'an unknown time'}"
    lines += [
        Line(title="place in queue", texts=(place,)),
        Line(title="because", texts=(f"{waiting.waits_for} ({waiting.slurm_reason or 'no reason yet'})",)),
        Line(title="Slurm expects", texts=(f"a start at {waiting.starts}",) if waiting.starts else ()),
    ]
    cure = CURES.get(waiting.slurm_reason, "").format(job=row.id)
    in_turn = f"Nothing: it starts in its turn; scontrol show job {row.id} says more."
    stays = "stays in the queue until somebody changes something"
    return Explanation(
        subject=f"Slurm job {row.id}",
        standing=stays if waiting.never_starts else "waits in the queue",
        lines=tuple(lines),
        what_to_do=cure or in_turn,
    )
