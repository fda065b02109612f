"""The note that is written on a pod with its binding is read back as it was, whatever else stands there."""

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.gang.binding_note import BindingNote, names_pod, noted_gang, noted_job
from sunkpy.core.gang.gang import extra_unit
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import JobId
from tests.unit.core.gang.pods import make_pod

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


def test_the_job_of_a_single_pod_and_of_one_that_has_a_job_of_its_own_names_it():
    pod, other = make_pod("web"), make_pod("other", uid="uid-2")
    single = GangId(namespace="default", name=pod.name, uid=pod.uid)
    extra = msgspec.structs.replace(GANG, unit=extra_unit(pod))
    assert names_pod(single, pod)
    assert names_pod(extra, pod)
    assert not any(names_pod(id, other) for id in (single, extra))
    assert not names_pod(msgspec.structs.replace(single, unit="stage"), pod)
