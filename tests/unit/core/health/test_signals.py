"""What each source shows: a signal, none, or nothing that is known."""

import msgspec
import pytest

from sunkpy.core.health.rules import Rule
from sunkpy.core.health.signals import Sign, find, slurms_reason
from sunkpy.core.health.verification import FAILED_RULE
from sunkpy.core.model.objects import Taint
from tests.unit.core.health.build import CHECK_FAILED, DEADLOCK, KILL, LABEL, node, pod

BAD, GOOD, UNKNOWN = Sign.BAD, Sign.GOOD, Sign.UNKNOWN
LABELLED = Rule(label=LABEL, bad=("bad", "worse"))
TAINTED = Rule(taint="example.com/sick")
VALUED = Rule(taint="example.com/sick", bad=("gpu",))
STARTS = Rule(failed_starts=3)


DRAIN = Rule(is_drain_request=True)


def asked(what):
    return msgspec.structs.replace(node(), drain_request=what)


def tainted(value=""):
    return node(taints=(Taint(key="example.com/sick", value=value, effect="NoSchedule"),))


@pytest.mark.parametrize(
    ("rule", "at", "on", "sign", "text"),
    [
        pytest.param(DEADLOCK, node(deadlock="True"), pod(), BAD,
                     "condition KernelDeadlock=True (TaskHung: task dd blocked)", id="True is bad, on one line"),
        pytest.param(DEADLOCK, node(deadlock="False"), pod(), GOOD, "", id="False is good"),
        pytest.param(DEADLOCK, node(deadlock="Unknown"), pod(), UNKNOWN, "", id="Unknown is not known"),
        pytest.param(DEADLOCK, node(), pod(), UNKNOWN, "", id="nobody reports the condition"),
        pytest.param(Rule(condition="KernelDeadlock", bad=("False",)), node(deadlock="False"), pod(), BAD,
                     "condition KernelDeadlock=False (TaskHung: task dd blocked)", id="False is bad"),
        pytest.param(Rule(condition="KernelDeadlock", bad=("Unknown",)), node(deadlock="Unknown"), pod(), BAD,
                     "condition KernelDeadlock=Unknown (TaskHung: task dd blocked)", id="Unknown is bad"),
        pytest.param(LABELLED, node(label="worse"), pod(), BAD, f"label {LABEL}=worse", id="a bad label"),
        pytest.param(LABELLED, node(label="fine"), pod(), GOOD, "", id="another value"),
        pytest.param(LABELLED, node(), pod(), GOOD, "", id="no label"),
        pytest.param(TAINTED, tainted(), pod(), BAD, "taint example.com/sick:NoSchedule", id="a taint"),
        pytest.param(TAINTED, node(), pod(), GOOD, "", id="no taint"),
        pytest.param(VALUED, tainted("gpu"), pod(), BAD, "taint example.com/sick=gpu:NoSchedule", id="with its value"),
        pytest.param(VALUED, tainted("fan"), pod(), GOOD, "", id="with another value"),
        pytest.param(KILL, node(), pod(slurm="Kill task failed: job 7"), BAD,
                     "drained in Slurm: Kill task failed: job 7", id="Slurm's drain"),
        pytest.param(KILL, node(), pod(slurm="bad fan"), GOOD, "", id="a person's drain"),
        pytest.param(KILL, node(), pod(), GOOD, "", id="no drain"),
        pytest.param(KILL, node(), pod(slurm=None), UNKNOWN, "", id="Slurm cannot be read"),
        pytest.param(KILL, node(), None, UNKNOWN, "", id="no slurmd pod"),
        pytest.param(STARTS, node(), pod(restarts=3, words="no cgroups"), BAD,
                     "slurmd was started again 3 times and is not ready: no cgroups", id="slurmd does not start"),
        pytest.param(STARTS, node(), pod(restarts=2), UNKNOWN, "", id="it may start yet"),
        pytest.param(STARTS, node(), pod(), GOOD, "", id="it has started"),
        pytest.param(STARTS, node(), None, UNKNOWN, "", id="nothing is there to start"),
        pytest.param(FAILED_RULE, node(), pod(check_s=60, restarts=1, words=CHECK_FAILED), BAD,
                     "verify failed with 3: link mlx5_3 is down", id="the site's check says no"),
        pytest.param(FAILED_RULE, node(), pod(check_s=60, words=CHECK_FAILED, ready=False), BAD,
                     "verify failed with 3: link mlx5_3 is down", id="it runs again"),
        pytest.param(FAILED_RULE, node(), pod(check_s=60, words=CHECK_FAILED), GOOD, "", id="it has passed since"),
        pytest.param(FAILED_RULE, node(), pod(check_s=60, restarts=1, words="no cgroups"), UNKNOWN, "",
                     id="slurmd ended after it"),
        pytest.param(FAILED_RULE, node(), pod(restarts=1, words=CHECK_FAILED), UNKNOWN, "", id="it has no check"),
        pytest.param(FAILED_RULE, node(), None, UNKNOWN, "", id="nothing is there to check"),
        pytest.param(DRAIN, asked("nvsentinel/d-1: Xid79"), pod(), BAD, "a drain is asked for by nvsentinel/d-1: Xid79",
                     id="another program asks for a drain"),
        pytest.param(DRAIN, asked(""), pod(), GOOD, "", id="nobody asks"),
        pytest.param(DRAIN, asked(None), pod(), UNKNOWN, "", id="it was not listed"),
    ],
)  # fmt: skip
def test_a_rule_reads_its_source(rule, at, on, sign, text):
    found = find(rule, at, on)
    assert (found.sign, found.text) == (sign, text)


def test_evidence_is_bounded():
    assert len(find(LABELLED, node(label="bad"), pod()).text) < 300
    assert len(find(STARTS, node(), pod(restarts=3, words="x" * 10_000)).text) == 300


def test_a_reason_of_slurm_is_kept_byte_for_byte():
    assert slurms_reason(pod(slurm="Kill  task failed")) == "Kill  task failed"
    assert slurms_reason(pod(slurm=None)) == slurms_reason(None) == ""
