from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model import hostlist

NAMES = st.builds(
    lambda prefix, width, number: f"{prefix}-{str(number).zfill(width)}",
    st.sampled_from(["gpu", "h100", "login"]),
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=0, max_value=2000),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu-001", ["gpu-001"]),
        ("gpu-[001-003,007]", ["gpu-001", "gpu-002", "gpu-003", "gpu-007"]),
        ("a[1-2],login", ["a1", "a2", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("h100-012-[002-003]", ["h100-012-002", "h100-012-003"]),
        ("", []),
    ],
)
def test_ranges_expand_in_the_order_written(text: str, expected: list[str]) -> None:
    assert hostlist.expand(text) == expected


@pytest.mark.parametrize(
    "text", ["gpu-[1-3", "gpu-1]", "gpu-[3-1]", "gpu-[a-b]", "gpu-[[1]]", "gpu-[²]", "gpu-[0-99999999999]", "gpu-[]"]
)
def test_broken_ranges_are_refused(text: str) -> None:
    with pytest.raises(hostlist.BadHostlist):
        hostlist.expand(text)


def test_more_names_than_are_wanted_are_refused() -> None:
    assert len(hostlist.expand("n[1-9],m", most=10)) == 10
    with pytest.raises(hostlist.BadHostlist, match="it has more than 10 names"):
        hostlist.expand("n[1-9],m,o", most=10)


def test_brackets_that_together_make_more_names_than_a_range_may_are_refused() -> None:
    assert len(hostlist.expand("r[0-15]n[0-99]")) == 1600
    with pytest.raises(hostlist.BadHostlist):
        hostlist.expand("r[0-999]n[0-999]")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["gpu-003", "gpu-001", "gpu-002"], "gpu-[001-003]"),
        (["gpu-1", "gpu-01"], "gpu-1,gpu-01"),
        (["login", "gpu-007"], "login,gpu-007"),
        ([], ""),
    ],
)
def test_names_are_compressed_to_ranges(names: list[str], expected: str) -> None:
    assert hostlist.compress(names) == expected


@given(st.sets(NAMES))
def test_compressing_and_expanding_gives_the_same_names(names: set[str]) -> None:
    assert set(hostlist.expand(hostlist.compress(names))) == names


def test_a_long_text_is_cut_for_people() -> None:
    assert hostlist.describe(f"gpu-{n:03d}" for n in range(500)) == "gpu-[000-499]"
    scattered = [f"gpu-{n:03d}" for n in range(0, 500, 2)]
    assert hostlist.describe(reversed(scattered)) == ("gpu-[000,002,004,006,008,010,012,014,016,018] and 240 more")
    few = [f"ip-10-0-12-{n}.eu-central-1.compute.internal" for n in range(5)]
    assert hostlist.describe(few) == ",".join(few), "of a few long names there are no more"
    assert len(hostlist.describe(f"{n}-{'x' * 50}" for n in range(11))) < 1000, "it fits into an Event with its text"
