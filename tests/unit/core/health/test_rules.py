"""Which rules can be written."""

import msgspec
import pytest

from sunkpy.core.health.rules import Cure, Remedy, Rule
from tests.unit.core.nodeset.build import make_node

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


OBJECT = "give manifest, or name and annotations of an existing object"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({}, OBJECT),
        ({"name": "a"}, OBJECT),
        ({"annotations": {"a": "b"}}, OBJECT),
        ({"manifest": {"kind": "A"}, "name": "a", "annotations": {"a": "b"}}, OBJECT),
        ({"manifest": {"kind": "A"}, "timeout": 3}, "unknown field `timeout`"),
    ],
)
def test_a_remedy_that_asks_for_nothing_is_refused(written, problem):
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert({"apiVersion": "a/v1", "resource": "as", **written}, Remedy)


def test_what_a_remedy_reads_of_the_node_is_known_and_filled_in():
    remedy = Remedy(api_version="a/v1", resource="as", name="$(ANNOTATION a.b/c)", annotations={"for": "$(NODE)"})
    at = make_node(1, annotations={"a.b/c": "m"})
    assert (remedy.problem(make_node(1)), remedy.problem(at)) == ("the Node has no annotation a.b/c", "")
    filled = remedy.filled(at)
    assert (filled.name, filled.annotations, filled.read_annotations) == ("m", {"for": "n1"}, frozenset())


@pytest.mark.parametrize("name", ["../secrets/x", "m/status", "m?force=true", "M", "m ", "-m", "a" * 300, "..", "m\n"])
def test_an_annotation_names_no_other_path_of_the_api(name):
    remedy = Remedy(api_version="a/v1", resource="as", name="$(ANNOTATION a.b/c)", annotations={"for": "$(NODE)"})
    assert remedy.problem(make_node(1, annotations={"a.b/c": name})) == f"{name!r} is no name of an object"


def test_what_an_annotation_says_is_not_read_again():
    remedy = Remedy(api_version="a/v1", resource="as", manifest={"spec": ["$(ANNOTATION a)"]})
    assert remedy.filled(make_node(1, annotations={"a": "$(NODE)$(ANNOTATION a)"})).manifest == {
        "spec": ["$(NODE)$(ANNOTATION a)"]
    }
