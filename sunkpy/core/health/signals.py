"""Tells whether a Node and its slurmd pod show the signal of a health rule: yes, no, or unknown.

An unknown signal begins no drain and ends none. A missing condition is unknown, because the program that reports it may
be gone. A missing label or taint means that the signal has ended, because the program that set it removes it. The state
in Slurm is what the syncer last wrote on the slurmd pod.
"""

from __future__ import annotations

import enum

import msgspec

from sunkpy.core import names
from sunkpy.core.health.idle_check import failed_check
from sunkpy.core.health.record import read_record
from sunkpy.core.health.rules import Rule
from sunkpy.core.health.verification import FAILED, failure_of, last_words, slurmd_of, verify_s
from sunkpy.core.model.objects import Node, Pod

_TEXT_LIMIT = 300


class Sign(enum.Enum):
    """What the source of a health rule says about a node: it is sick, it is well, or unknown."""

    BAD = "bad"
    GOOD = "good"
    UNKNOWN = "unknown"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one health rule finds on a Node. `text`: the evidence. `since`: when the source turned bad; may be empty."""

    sign: Sign
    text: str = ""
    since: str = ""


_GOOD = Finding(sign=Sign.GOOD)
_UNKNOWN = Finding(sign=Sign.UNKNOWN)


def find(rule: Rule, node: Node, pod: Pod | None) -> Finding:
    """Return what one health rule finds on a Node and its slurmd pod."""
    if rule.condition:
        return _of_condition(rule, node)
    if rule.label:
        value = node.labels.get(rule.label)
        return _bad(f"label {rule.label}={value}") if value in rule.bad_values else _GOOD
    if rule.taint:
        return _of_taint(rule, node)
    if rule.slurm_reason:
        return _of_slurm(rule, pod)
    if rule.failed_verification:
        return _of_verification(node, pod)
    if rule.is_request:
        return _of_request(node, pod)
    if rule.is_drain_request:
        return _of_drain_request(node)
    return _of_starts(rule, pod)


def slurms_reason(pod: Pod | None) -> str:
    """Return the reason of the drain that somebody other than sunkpy set in Slurm; empty if there is none or it is
    unknown.
    """
    drained = pod.condition(names.CONDITION_CORDON) if pod is not None else None
    return drained.message if drained is not None and drained.status == "True" else ""


def _of_condition(rule: Rule, node: Node) -> Finding:
    condition = node.condition(rule.condition)
    if condition is None:
        return _UNKNOWN
    if condition.status not in rule.bad_values:
        return _UNKNOWN if condition.status == "Unknown" else _GOOD
    words = ": ".join(filter(None, (condition.reason, condition.message)))
    said = f"{condition.type}={condition.status}" + (f" ({words})" if words else "")
    return _bad(f"condition {said}", condition.last_transition_time or "")


def _of_taint(rule: Rule, node: Node) -> Finding:
    for taint in node.spec.taints:
        if taint.key == rule.taint and (not rule.bad_values or taint.value in rule.bad_values):
            value = f"={taint.value}" if taint.value else ""
            return _bad(f"taint {taint.key}{value}:{taint.effect}", taint.time_added or "")
    return _GOOD


def _of_slurm(rule: Rule, pod: Pod | None) -> Finding:
    drained = pod.condition(names.CONDITION_CORDON) if pod is not None else None
    if drained is None or drained.status == "Unknown":
        return _UNKNOWN
    reason = slurms_reason(pod)
    return _bad(f"drained in Slurm: {reason}") if reason.startswith(rule.slurm_reason) else _GOOD


def _of_starts(rule: Rule, pod: Pod | None) -> Finding:
    if pod is not None and pod.is_condition_true("Ready"):
        return _GOOD
    slurmd = slurmd_of(pod)
    if slurmd is None or slurmd.ready or slurmd.restart_count < rule.failed_starts:
        return _UNKNOWN
    words = f": {said}" if (said := last_words(slurmd)) else ""
    return _bad(f"slurmd was started again {slurmd.restart_count} times and is not ready{words}")


def _of_drain_request(node: Node) -> Finding:
    if node.drain_request is None:
        return _UNKNOWN
    return _bad(f"a drain is asked for by {node.drain_request}") if node.drain_request else _GOOD


def _of_request(node: Node, pod: Pod | None) -> Finding:
    """Return whether somebody asks for the site's check of this Node; unknown if they do and the slurmd pod has no
    check.
    """
    who = node.annotations.get(names.ANNOTATION_VERIFY)
    if who is None:
        return _GOOD
    return _bad(f"asked for by {who}") if verify_s(pod) is not None else _UNKNOWN


def _of_verification(node: Node, pod: Pod | None) -> Finding:
    """Return whether the site's check of the machine has failed. A failed check of the idle machine counts until the
    node has another slurmd pod, or until its health record no longer keeps it closed for that.
    """
    idle = failed_check(pod)
    if idle is not None and (not idle.is_told or _is_held_for_a_check(node)):
        return _bad(f"while it was idle, {idle.text}")
    if pod is not None and pod.is_condition_true("Ready"):
        return _GOOD
    failure = failure_of(pod)
    if failure is None:
        return _UNKNOWN
    how, log = failure
    return _bad(": ".join(filter(None, (how, log.rpartition("\n")[2]))))


def _is_held_for_a_check(node: Node) -> bool:
    record = read_record(node)
    return record is not None and record.is_closed and record.signal == FAILED


def _bad(text: str, since: str = "") -> Finding:
    line = " ".join(text.split())
    return Finding(sign=Sign.BAD, text=line[:_TEXT_LIMIT], since=since)
