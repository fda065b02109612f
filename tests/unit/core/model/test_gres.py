"""What Slurm tells of the GRES of a job."""

import pytest

from sunkpy.core.model.gres import gres_count, gres_counts, gres_indices


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:h100:2(IDX:0-1)", 2),
        ("gpu:2(IDX:0,3)", 2),
        ("gpu:h100:2(IDX:0-1),nic:1(IDX:0)", 3),
        ("gres/gpu:h100:2", 2),
        ("gres/gpu:1,gres/nic:2", 3),
        ("", 0),
    ],
)
def test_devices_are_counted(text, count):
    assert gres_count(text) == count
    assert sum(gres_counts(text).values()) == count


def test_devices_are_counted_by_name():
    assert gres_counts("gpu:h100:2(IDX:0-1),gpu:a100:1(IDX:2),nic:1(IDX:0)") == {"gpu": 3, "nic": 1}


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("", {}),
        ("gpu:2", {}),
        ("gpu:2(IDX:N/A)", {}),
        ("gpu:h100:2(IDX:0-1)", {"gpu": (0, 1)}),
        ("gpu:h100:3(IDX:0,2-3),nic:1(IDX:0)", {"gpu": (0, 2, 3), "nic": (0,)}),
        ("gpu:h100:1(IDX:3),gpu:a100:1(IDX:0)", {"gpu": (0, 3)}),
    ],
)
def test_the_indices_of_devices_are_read(text, indices):
    assert gres_indices(text) == indices
