"""Puts `status.growth` of NodeSets, the nodes that they lack, into words: for one NodeSet, and for one job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sunkpy.core.model.growth import GrowthStatus


def describe(growth: GrowthStatus | None) -> Iterator[str]:
    """Yield texts about the growth of one NodeSet: how many nodes are wanted (`3 nodes more wanted since …: 2 for job
    7`), and which jobs get none and why. Yield nothing without a status.
    """
    if growth is None:
        return
    if growth.wanted_nodes:
        jobs = ", ".join(f"{each.nodes} for job {each.job}" for each in growth.requests)
        yield f"{_more(growth.wanted_nodes)} wanted since {growth.since}" + (f": {jobs}" if jobs else "")
    if growth.reason:
        yield growth.reason


def describe_for(job: int, growth: Mapping[str, GrowthStatus | None], *, array: int = 0, het_job: int = 0) -> list[str]:
    """Return for each NodeSet what its growth says about one job: `2 nodes more of NodeSet gpu, wanted since …`, or why
    no new node helps the job. NodeSets that say nothing about the job are left out.

    `array`, `het_job`: the ID of the job array or heterogeneous job that the job is part of, or 0.
    """
    return [
        text
        for nodeset, each in growth.items()
        if each is not None
        for label, text in (*_wanted(nodeset, each), *_not_helped(nodeset, each))
        if _is_of(label, job, array, het_job)
    ]


def _wanted(nodeset: str, growth: GrowthStatus) -> Iterator[tuple[str, str]]:
    for each in growth.requests:
        yield each.job, f"{_more(each.nodes)} of NodeSet {nodeset}, wanted since {growth.since}"


def _not_helped(nodeset: str, growth: GrowthStatus) -> Iterator[tuple[str, str]]:
    """Yield pairs of a job and the text why no new node of the NodeSet helps it, from the reason that
    `core.growth.wish:explain` wrote.
    """
    for told in growth.reason.split("; "):
        label, _, why = told.removeprefix("job ").partition(": ")
        yield label, f"more nodes of NodeSet {nodeset} do not help it: {why}"


def _is_of(label: str, job: int, array: int, het_job: int) -> bool:
    return (
        label == str(job)
        or (array > 0 and label.startswith(f"{array}_["))
        or (het_job > 0 and label == f"{het_job}+")
        or label.startswith(f"{job}_[")
    )


def _more(count: int) -> str:
    return "1 node more" if count == 1 else f"{count} nodes more"
