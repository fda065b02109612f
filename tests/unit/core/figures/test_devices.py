"""Which job has which GPU."""

from __future__ import annotations

import msgspec

from sunkpy.core.figures.devices import device_family, gpus_alloc
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.model.states import SlurmNode

NODE = SlurmNode(name="n1", extra='{"gpu":["nvidia0 GPU-a 0000:3b:00.0","nvidia1 GPU-b -"]}')
JOB = JobRow(
    id=7,
    state=frozenset({"RUNNING"}),
    user="ann",
    account="chem",
    partition="low",
    devices={"n1": {"gpu": (1,), "nic": (0,)}, "n2": {"gpu": (0, 3)}},
)


def test_the_uuid_is_what_the_slurmd_publishes_behind_the_index() -> None:
    samples = device_family([JOB], {"n1": NODE, "n2": msgspec.structs.replace(NODE, name="n2")}).samples
    assert [labels for labels, _ in samples] == [
        ("7", "ann", "chem", "low", "n1", "1", "GPU-b", "", ""),
        ("7", "ann", "chem", "low", "n2", "0", "GPU-a", "", ""),
        ("7", "ann", "chem", "low", "n2", "3", "", "", ""),
    ]
    assert gpus_alloc([JOB]) == {"n1": 1, "n2": 2}


def test_a_job_of_pods_names_them() -> None:
    job = msgspec.structs.replace(JOB, comment="k8s:team/web-0:uid-1 train")
    assert {labels[-2:] for labels, _ in device_family([job], {}).samples} == {("web-0", "team")}


def test_a_job_that_ends_has_no_device_any_more() -> None:
    job = msgspec.structs.replace(JOB, state=frozenset({"COMPLETED", "COMPLETING"}))
    assert device_family([job], {}).samples == []
