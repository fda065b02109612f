"""What Slurm tells of the GRES of a job."""

import pytest

from sunkpy.core.model.gres import gres_count, gres_counts, gres_indices, gres_name, gres_types


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:h100:2(IDX:0-1)", 2),
        ("gpu:2(IDX:0,3)", 2),
        ("gpu:h100:2(IDX:0-1),nic:1(IDX:0)", 3),
        ("gres/gpu:h100:2", 2),
        ("gres/gpu:1,gres/nic:2", 3),
        ("gpu:2(IDX:0-1),nic:0(CNT:3)", 5),
        ("", 0),
    ],
)
def test_devices_are_counted(text, count):
    assert gres_count(text) == count
    assert sum(n for name, n in gres_counts(text).items() if name == gres_name(name)) == count


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (
            "gpu:h100:2(IDX:0-1),gpu:a100:1(IDX:2),nic:1(IDX:0)",
            {"gpu": 3, "gpu:h100": 2, "gpu:a100": 1, "nic": 1},
        ),
        ("gpu:4090:2(S:0-1),gpu:1g.5gb:7(S:0)", {"gpu": 9, "gpu:4090": 2, "gpu:1g.5gb": 7}),
        ("gres/gpu:8", {"gpu": 8}),
    ],
)
def test_devices_are_counted_by_name_and_by_type(text, counts):
    assert gres_counts(text) == counts


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("", {}),
        ("gpu:2", {}),
        ("gpu:2(IDX:N/A)", {}),
        ("gpu:2(IDX:0,3)", {"gpu": (0, 3)}),
        ("gpu:h100:3(IDX:0,2-3),nic:1(IDX:0)", {"gpu": (0, 2, 3), "gpu:h100": (0, 2, 3), "nic": (0,)}),
        ("gpu:h100:1(IDX:3),gpu:a100:1(IDX:0)", {"gpu": (0, 3), "gpu:h100": (3,), "gpu:a100": (0,)}),
    ],
)
def test_the_indices_of_devices_are_read(text, indices):
    assert gres_indices(text) == indices


def test_types_of_a_node_are_known_by_index():
    assert gres_types("gpu:a100:2(S:0-1),gpu:l40s:1,nic:1") == {"gpu": ["a100", "a100", "l40s"], "nic": [""]}
