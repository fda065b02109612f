"""Chooses nodes for jobs whose nodes must all have the same value of a node label: one rack, one zone, one node.

Slurm does not know such labels. So one domain (one value of the label) is chosen before the job is submitted, and the
nodes of all other domains are excluded from the job. That binds the job to this domain while it waits, even if another
domain is free earlier; so a domain with room now is preferred. If a kubelet there refuses the gang (the pods of the
job), the gang's next job takes another domain if possible.

Gangs that must not share a domain choose different ones by the numbers that their owner gave them, because Slurm may
start them at the same moment. If two gangs still get the same domain, one of them is refused when its pods are bound,
and its next job takes another domain.

A job for one node needs no choice, unless other gangs must not be on that node: it asks for one node, and nodes that
are too small are excluded.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from functools import cache, partial
from typing import Final

import msgspec

from sunkpy.core.placement.eligibility import Candidate, Eligibility, NodeAmounts, minus, times

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label whose domains are single nodes."""


class DomainWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a gang wants in one domain (nodes with the same value of `label`): `slots` tasks, each with `needs` (from
    `counted`). If `apart`, no two of them are on one node.

    `excluded`: nodes that the job excludes while it waits. The job stays with the domain in which it excludes no node,
    as long as that domain has room. `refused`: nodes that have refused the gang; a domain without them is preferred.
    `turn`: other gangs must not be in the same domain, so the gang takes the domain with this number among equally good
    ones, counted in a circle. None: it takes the first.
    """

    label: str
    slots: int
    needs: Mapping[str, int]
    apart: bool = False
    excluded: Set[str] = frozenset()
    refused: Container[str] = ()
    turn: int | None = None


def in_one_domain(eligibility: Eligibility, candidates: Iterable[Candidate], wish: DomainWish) -> Eligibility:
    """Return the eligible nodes of one domain (one value of `wish.label`) with room for the wish; none, with the
    reason, if there is no such domain. For single nodes without a `turn`: all nodes with room.

    `candidates` are all nodes, with what Slurm says of them now.
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
    slots_in = cache(partial(_slots, wish))
    refused = {each.slurm_node: f"without label {wish.label}" for each in by_value.pop("", [])}
    holding: list[tuple[tuple[bool, bool, bool], int, str]] = []
    for value, nodes in by_value.items():
        slots = sum(slots_in(each.room) for each in nodes)
        if slots < wish.slots:
            where = "alone" if wish.label == HOSTNAME else f"within {wish.label}={value}"
            why_not = f"with room for {slots} of its {wish.slots} slots {where}"
            refused |= {each.slurm_node: why_not for each in nodes}
        else:
            is_left = any(each.slurm_node in wish.excluded for each in nodes)
            slots_now = sum(slots_in(each.room) for each in nodes if each.is_free)
            holding.append(((value in refusing, is_left, slots_now < wish.slots), -slots, value))
    if holding and (wish.label != HOSTNAME or wish.turn is not None):
        rank, _, _ = min(holding)
        best = sorted(each for each in holding if each[0] == rank)
        _, _, chosen = best[(wish.turn or 0) % len(best)]
        outside = f"outside the one {wish.label} of the gang"
        refused |= {node.slurm_node: outside for _, _, v in holding if v != chosen for node in by_value[v]}
    return minus(eligibility, refused)


def _value(candidate: Candidate, label: str) -> str:
    """Return the domain of a node: its value of the label, empty without it. For the hostname label it is the Slurm
    node itself.
    """
    return candidate.slurm_node if label == HOSTNAME else candidate.node.labels.get(label, "")


def _slots(wish: DomainWish, room: NodeAmounts) -> int:
    """Return how many tasks of the wish fit on a node with this room when nothing else is there; at most one if they
    are `apart`.
    """
    fitting = times(wish.needs, room)
    return min(fitting, 1) if wish.apart else fitting
