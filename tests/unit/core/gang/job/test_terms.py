"""What to change in a job that waits, after its annotations were changed."""

import pytest
from msgspec.structs import replace

from sunkpy.core.gang.job.options import Switches
from sunkpy.core.gang.job.terms import (
    AskedTerms,
    find_change,
    last_asked,
    spec_of,
)
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, SlurmJob

OURS = JobSpec(name="web", comment="k8s:default/web:uid", partition="low", qos="normal", reservation="maint")
BY_SLURM = replace(OURS, account="root", time_limit_min=60, constraint="set-by-a-plugin", by_slurm=True)


@pytest.mark.parametrize(
    ("wishes", "fields"),
    [
        ({"partition": "high", "qos": "fast"}, ("partition", "qos")),
        ({"time_limit_min": 0}, ("time_limit_min",)),
        ({"switches": Switches(count=1)}, ("switches",)),
        ({"reservation": ""}, ("reservation",)),
        ({"qos": ""}, ()),
        ({"reservation": "other", "qos": ""}, ("reservation",)),
    ],
)
def test_what_was_changed_is_sent_and_what_is_gone_taken_away_if_it_can_be(wishes, fields):
    change = find_change(OURS, replace(OURS, **wishes))
    assert (change.fields if change is not None else ()) == fields


@pytest.mark.parametrize("field", ["shared", "wckey", "gpu_type"])
def test_what_is_fixed_once_a_job_is_submitted_is_answered_and_not_asked_again(field):
    wants = replace(OURS, partition="high", **{field: "x"})
    change = find_change(OURS, wants)
    assert change is not None
    assert (change.fields, change.fixed, change.to) == (("partition",), (field,), replace(OURS, partition="high"))
    assert change.refusal
    assert find_change(change.to, replace(OURS, partition="high")) is None
    assert find_change(BY_SLURM, replace(OURS, **{field: "x"})) is None


def test_nothing_is_changed_in_a_job_that_is_as_its_annotations_say():
    assert find_change(OURS, OURS) is None


def test_what_slurm_chose_itself_is_left_alone_when_nobody_asked_for_anything_else():
    assert find_change(BY_SLURM, OURS) is None
    change = find_change(BY_SLURM, replace(OURS, account="chem"))
    assert change is not None
    assert change.fields == ("account",)


def test_how_long_a_job_waits_for_switches_is_not_told_by_slurm():
    read = replace(BY_SLURM, switches=Switches(count=2))
    assert find_change(read, replace(OURS, switches=Switches(count=2, wait_s=60))) is None


def test_what_a_job_waits_for_is_changed_and_slurms_words_for_what_is_left_of_it_are_not_compared():
    change = find_change(OURS, replace(OURS, dependency="afterok:1"))
    assert change is not None
    gone = find_change(change.to, OURS)
    assert gone is not None
    assert (change.fields, gone.fields) == (("dependency",), ("dependency",))
    assert find_change(BY_SLURM, replace(OURS, dependency="afterok:1")) is None


def test_the_spec_of_a_job_are_read_from_slurm():
    job = SlurmJob(id=JobId(1), name="web", partition="low", constraint="a100", switches=1, time_limit_min=0)
    assert spec_of(job) == JobSpec(
        name="web", partition="low", constraint="a100", switches=Switches(count=1), time_limit_min=0, by_slurm=True
    )


ASKED = AskedTerms(job=7, turn=1, terms=replace(OURS, switches=Switches(count=2, wait_s=60), shared="none"))


def test_what_was_asked_is_read_from_the_note_and_name_and_comment_from_slurm():
    renamed = replace(BY_SLURM, name="other", comment="k8s:default/web:uid and more")
    found = last_asked(JobId(7), renamed, ["", str(ASKED)])
    assert found == replace(ASKED, terms=replace(ASKED.terms, name="other", comment="k8s:default/web:uid and more"))


def test_of_several_notes_the_newest_about_the_job_counts():
    newer = replace(ASKED, turn=3, terms=replace(OURS, qos="fast"))
    of_another = replace(ASKED, job=8, turn=9)
    found = last_asked(JobId(7), OURS, map(str, (ASKED, newer, of_another, ASKED)))
    assert found == newer


@pytest.mark.parametrize(
    "note",
    [
        "",
        "gpu",
        "[]",
        '{"job": "7"}',
        '{"job": 7, "terms": {"qos": 1}}',
        '{"job": 8}',
        '{"job": 7, "x": ' + "[" * 9000,
        '{"job": 7, "terms": {"qos": "' + "q" * 20000 + '"}}',
    ],
)
def test_a_note_that_cannot_be_used_is_none(note):
    assert last_asked(JobId(7), BY_SLURM, [note]) is None


def test_a_note_with_the_highest_turn_can_be_followed_by_another():
    found = last_asked(JobId(7), BY_SLURM, ['{"job": 7, "turn": ' + "9" * 4300 + "}", '{"job": 7, "turn": 9}'])
    assert found is not None
    assert '"turn":10' in str(replace(found, turn=found.turn + 1))


def test_whoever_writes_the_note_cannot_have_the_job_asked_for_anything_but_what_it_may_have_now():
    lie = AskedTerms(job=7, terms=JobSpec(user="ann", partition="secret", qos="gold", by_slurm=True))
    found = last_asked(JobId(7), BY_SLURM, [str(lie)])
    assert found is not None
    change = find_change(found.terms, OURS)
    assert change is not None
    assert {field: getattr(change.to, field) for field in change.fields} == {
        "partition": OURS.partition, "qos": OURS.qos, "reservation": OURS.reservation,
    }  # fmt: skip


def test_a_change_in_words():
    change = find_change(OURS, replace(OURS, partition="high", reservation="", qos=""))
    assert str(change) == ("partition high, reservation none")
