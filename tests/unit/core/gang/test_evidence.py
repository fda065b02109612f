"""Whose a pod is when several things speak: the stronger moves it, and nothing weaker moves it back."""

import msgspec
import pytest

from sunkpy.core.gang.evidence import Evidence, for_forgotten, for_present, moves, names_pod
from sunkpy.core.gang.gang import apart_unit, extra_unit
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Meta, Pod

POD = Pod(metadata=Meta(namespace="default", name="web", uid="u"))
ALONE = GangId(namespace="default", name="web", uid="u")
BAND = GangId(namespace="default", name="band", uid="b")
EXTRA = GangId(namespace="default", name="band", uid="b", unit=extra_unit(POD))
APART = GangId(namespace="default", name="band", uid="b", unit=apart_unit(POD))


@pytest.mark.parametrize(
    ("offered", "moves_away_from"),
    [
        (Evidence.NOTE, {Evidence.WORD}),
        (Evidence.JOB_AND_NOTE, {Evidence.WORD, Evidence.JOB_THERE}),
        (Evidence.OWN_JOB, {Evidence.WORD, Evidence.JOB_THERE, Evidence.OWN_JOB}),
    ],
)
def test_a_pod_leaves_its_gang_only_for_evidence_as_strong_as_what_holds_it_there(offered, moves_away_from):
    held_by = (Evidence.WORD, Evidence.JOB_THERE, Evidence.OWN_JOB)
    assert {present for present in held_by if moves(offered, present)} == moves_away_from


@pytest.mark.parametrize(
    ("id", "has_job_there", "evidence"),
    [
        (None, False, Evidence.WORD),
        (BAND, False, Evidence.WORD),
        (ALONE, False, Evidence.WORD),
        (BAND, True, Evidence.JOB_THERE),
        (ALONE, True, Evidence.OWN_JOB),
        (EXTRA, True, Evidence.OWN_JOB),
        (APART, True, Evidence.OWN_JOB),
    ],
)
def test_without_a_job_on_its_node_nothing_but_its_word_holds_a_pod(id, has_job_there, evidence):
    assert for_present(id, POD, has_job_there=has_job_there) is evidence


@pytest.mark.parametrize(
    ("noted", "present", "evidence"),
    [
        (BAND, ALONE, Evidence.NOTE),
        (BAND, None, Evidence.NOTE),
        (EXTRA, ALONE, Evidence.NOTE),
        (EXTRA, BAND, Evidence.JOB_AND_NOTE),
        (APART, BAND, Evidence.JOB_AND_NOTE),
    ],
)
def test_the_note_of_a_forgotten_job_counts_for_more_where_the_pod_left_its_present_gang(noted, present, evidence):
    assert for_forgotten(noted, present, POD) is evidence


def test_each_kind_of_evidence_has_a_rank_of_its_own_and_words():
    assert [int(each) for each in Evidence] == [1, 2, 3, 4, 5]
    assert all(each.words for each in Evidence)


def test_the_job_of_a_single_pod_and_of_one_that_has_a_job_of_its_own_names_it():
    other = Pod(metadata=Meta(namespace="default", name="other", uid="uid-2"))
    assert all(names_pod(id, POD) for id in (ALONE, EXTRA, APART))
    assert not any(names_pod(id, other) for id in (ALONE, EXTRA, APART))
    assert not names_pod(msgspec.structs.replace(ALONE, unit="stage"), POD)
