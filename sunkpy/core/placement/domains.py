"""Jobs that must stay within one value of a node label: a rack, a zone, a node.

Slurm knows no such labels, and would have to be told its topology. So one domain is chosen before the job is submitted,
and the nodes of all others are excluded from it. That binds the job to this domain while it waits, also when another
one is free earlier; a domain with room now is preferred for that reason. When a kubelet there refuses the gang, the
next job takes another.

Gangs that must not share a domain take turns, by the numbers that their owner gave them, for Slurm, which knows nothing
of it, may start them at the same moment. Who gets the same as another is refused when it is bound, and takes the next.

To be on one node needs no choice, unless others must not be there: the job asks for one node, and those that are too
small are excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Set
from functools import cache, partial
from typing import Final

import msgspec

from sunkpy.core.model.gres import gres_counts
from sunkpy.core.placement.eligibility import Candidate, Eligibility, Size, minus, size_of

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label by which a domain is one node."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What must be together: `slots` of `needs` each, within one value of `label`; no two on a node if `apart`. `gres`:
    the devices of a slot as Slurm is asked for them, `gres/gpu:h100:2`.

    `excluded`: nodes that the job excludes while it waits; it stays with the domain of which it excludes none, as long
    as that holds it. `refused`: nodes that have refused the gang; another domain than theirs is preferred. `turn`:
    other gangs must not be in its domain, so of equally good ones it takes that of this number.
    """

    label: str
    slots: int
    needs: Mapping[str, int]
    gres: str = ""
    apart: bool = False
    excluded: Set[str] = frozenset()
    refused: Container[str] = ()
    turn: int | None = None


class _Domain(msgspec.Struct, frozen=True, kw_only=True):
    value: str
    nodes: tuple[Candidate, ...]
    slots: int
    slots_now: int
    is_left: bool


def in_one_domain(eligibility: Eligibility, candidates: Iterable[Candidate], wish: Wish) -> Eligibility:
    """The nodes of one domain that holds the wish; none, with the reason, when there is no such domain.

    `candidates`: what is known of the nodes; `slurm` as it is now.
    """
    candidates = tuple(candidates)
    eligible, refusing = set(eligibility.eligible), set[str]()
    by_value: dict[str, list[Candidate]] = {}
    for each in candidates:
        value = _value(each, wish.label)
        if each.slurm_node in wish.refused:
            refusing.add(value)
        if each.slurm_node in eligible:
            by_value.setdefault(value, []).append(each)
    unlabelled = {each.slurm_node: f"without label {wish.label}" for each in by_value.pop("", [])}
    slots_in = cache(partial(_slots, wish))
    domains = [_domain(value, nodes, wish, slots_in) for value, nodes in sorted(by_value.items())]
    holding = [domain for domain in domains if domain.slots >= wish.slots]
    if holding and (wish.label != HOSTNAME or wish.turn is not None):
        ranks = {d.value: (d.value in refusing, d.is_left, d.slots_now < wish.slots) for d in holding}
        lowest = min(ranks.values())
        best = sorted((d for d in holding if ranks[d.value] == lowest), key=lambda d: (-d.slots, d.value))
        holding = [best[(wish.turn or 0) % len(best)]]
    kept = {each.slurm_node for domain in holding for each in domain.nodes}
    others = {
        each.slurm_node: _why_not(domain, wish)
        for domain in domains
        for each in domain.nodes
        if each.slurm_node not in kept
    }
    return minus(eligibility, unlabelled | others)


def _value(candidate: Candidate, label: str) -> str:
    """A node is alone with itself, whatever its labels say."""
    return candidate.slurm_node if label == HOSTNAME else candidate.node.labels.get(label, "")


def _domain(value: str, nodes: list[Candidate], wish: Wish, slots_in: Callable[[Size, str], int]) -> _Domain:
    return _Domain(
        value=value,
        nodes=tuple(nodes),
        slots=sum(slots_in(each.room, each.gres) for each in nodes),
        slots_now=sum(slots_in(each.room, each.gres) for each in nodes if each.is_free),
        is_left=any(each.slurm_node in wish.excluded for each in nodes),
    )


def _slots(wish: Wish, room: Size, gres: str) -> int:
    """How many fit on a node of that size, with these devices by Slurm's words, when nobody else is there."""
    wants = size_of(wish.needs)
    fitting = [has // want for has, want in zip(room, wants, strict=True) if want]
    if gres:
        there = gres_counts(gres)
        fitting += [there.get(kind, 0) // count for kind, count in gres_counts(wish.gres).items()]
    times = min(fitting, default=wish.slots)
    return min(times, 1) if wish.apart else times


def _why_not(domain: _Domain, wish: Wish) -> str:
    if domain.slots >= wish.slots:
        return f"outside the one {wish.label} of the gang"
    where = "alone" if wish.label == HOSTNAME else f"within {wish.label}={domain.value}"
    return f"with room for {domain.slots} of its {wish.slots} slots {where}"
