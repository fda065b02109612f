"""Which rules can be written."""

import msgspec
import pytest

from sunkpy.core.health.rules import Cure, Rule

ONE_SOURCE = "give exactly one of condition, label, taint, slurmReason and failedStarts"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({}, ONE_SOURCE),
        ({"condition": "A", "taint": "b"}, ONE_SOURCE),
        ({"label": "a"}, "label a: give its bad values in bad"),
        ({"condition": "A", "patience": 3}, "unknown field `patience`"),
        ({"condition": "A", "patienceSeconds": -1}, "`int` >= 0"),
        (
            {"slurmReason": "Kill", "remedy": "reboot"},
            "remedy reboot: say in cure what shows that it has helped, clear or reboot",
        ),
        ({"condition": "A", "cure": "hope"}, "Invalid enum value 'hope'"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(written, problem):
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert(written, Rule)


def test_a_drain_of_slurms_side_is_for_a_person_unless_a_rule_says_more():
    assert Rule(slurm_reason="Kill").cured_by is Cure.PERSON
    assert Rule(slurm_reason="Kill", cure=Cure.REBOOT).cured_by is Cure.REBOOT
    assert Rule(condition="A").cured_by is Cure.CLEAR
    assert Rule(condition="A").closes
    assert not Rule(slurm_reason="Kill").closes
