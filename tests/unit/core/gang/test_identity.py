"""The comment of a job and the note on a pod are read as they were written, whatever people write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.gang.identity import (
    LONGEST_COMMENT,
    REPLACEMENT,
    WHOLE,
    BindingNote,
    GangId,
    JobKind,
    kind_in,
    make_comment,
    noted_gang,
    noted_job,
    parse_comment,
    shared_kind,
)
from sunkpy.core.gang.job.request import Policy, plan_job
from sunkpy.core.model.states import JobId
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.seating.test_slots import gang, role

ID = GangId(namespace="default", name="train", uid="uid-1", unit="ring", generation="2")
SHARED = JobKind("shared", (("worker", 4), ("launcher.a", 1)))
KINDS = [None, WHOLE, JobKind("named"), REPLACEMENT, SHARED]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", "nightly: run 3"])
def test_a_comment_says_whose_the_job_is_and_its_kind_before_what_people_write(kind, text):
    comment = make_comment(ID, kind, text)
    assert comment.startswith(ID.comment())
    assert (parse_comment(comment), kind_in(comment)) == (ID, kind)
    assert comment.endswith(text)


def test_the_kind_of_a_shared_job_names_the_seats_that_it_was_asked_for():
    assert make_comment(ID, SHARED, "") == "k8s:default/train:uid-1/ring@2 +shared=worker.4,launcher.a.1"


@given(st.sampled_from(KINDS), st.text(max_size=2000) | st.sampled_from(["+replacement", "+shared=a.1", "+whole x"]))
def test_what_people_write_is_no_kind_and_no_comment_is_longer_than_slurm_takes(kind, text):
    comment = make_comment(ID, kind, text)
    assert len(comment.encode()) <= LONGEST_COMMENT
    assert parse_comment(comment) == ID
    assert kind_in(comment) in ((WHOLE, None) if kind is None else (kind,))


@pytest.mark.parametrize(
    "comment",
    [
        *("", "+whole", "k8s:a/b:c", "k8s:a/b:c text", "k8s:a/b:c +wholes", "k8s:a/b:c +shared", "k8s:a/b:c +shared=x"),
        *("k8s:a/b:c +shared=w.0,l.1", "k8s:a/b:c +shared=w.2,w.1", "k8s:a/b:c +shared=w.2,", "k8s:a/b:c +shared=,w.2"),
        "k8s:a/b:c +shared=" + "a.1" * 300 + "!",
    ],
)
def test_other_comments_name_no_kind(comment):
    assert kind_in(comment) is None


def test_roles_that_a_comment_cannot_tell_apart_share_no_slots():
    assert shared_kind([("ring/a", 2), ("ring:a", 1)]) is None


def test_a_kind_that_is_too_long_for_a_comment_is_none():
    assert shared_kind([("w" * 50, number) for number in range(9)]) is None


def test_the_job_of_one_role_names_no_kind_and_that_of_several_does():
    policy = Policy(gpu_resources={})
    assert kind_in(plan_job(gang(role("w", 3, {"cpu": "1"})), policy).comment) is None
    uneven = gang(role("w", 3, {"cpu": "9"}), role("launcher", 1, {"cpu": "1"}))
    assert kind_in(plan_job(uneven, policy).comment) == JobKind("shared", (("w", 3), ("launcher", 1)))
    alike = gang(role("w", 3, {"cpu": "1"}), role("ps", 1, {"cpu": "1"}))
    assert kind_in(plan_job(alike, policy).comment) == WHOLE


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.integers(1, 99)), min_size=2, max_size=6))
def test_whatever_its_roles_are_called_the_kind_can_be_read_again(seats):
    kind = shared_kind(seats)
    if kind is not None:
        assert kind_in(make_comment(ID, kind, "text")) == kind


GANG = GangId(namespace="default", name="train", uid="u-1", unit="workers", generation="2")
NOTES = [
    BindingNote(job=JobId(7), gang=GANG, slurm_node="n1", seat="worker/1", devices="0,1", claimed="node-1/gpu-0"),
    BindingNote(job=JobId(7), gang=GANG),
]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_is_read_as_it_was_written(note):
    pod = make_pod(annotations={"other": "x"} | note.annotations)
    assert (noted_job(pod), noted_gang(pod)) == (note.job, note.gang)


def test_it_is_all_that_the_policy_keeps():
    assert tuple(NOTES[0].annotations) == names.BINDING_NOTE


@pytest.mark.parametrize("gang", ["train", "k8s:default/train", "k8s:Default/train:u"])
def test_a_gang_in_another_form_is_none(gang):
    assert noted_gang(make_pod(annotations={names.ANNOTATION_JOB_ID: "7", names.ANNOTATION_GANG_ID: gang})) is None


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("7", 7),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("4294967294", None),
        ("4294967295", None),
        ("9999999999", None),
        ("-1", None),
        ("", None),
    ],
)
def test_a_note_that_is_no_number_of_a_job_is_none(text, job):
    """slurmrestd refuses to read it, so it would be asked for each second for ever."""
    assert noted_job(make_pod(annotations={names.ANNOTATION_JOB_ID: text})) == job
