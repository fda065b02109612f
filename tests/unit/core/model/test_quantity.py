from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model import quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1000),
        ("500m", 500),
        ("0.5", 500),
        ("1.5", 1500),
        ("2e1", 20_000),
        ("100u", 1),
        ("0", 0),
        ("3k", 3_000_000),
    ],
)
def test_cpu_is_counted_in_millicores(text: str, expected: int) -> None:
    assert quantity.millicores(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1Ki", 1024), ("1k", 1000), ("1.5Gi", 1610612736), ("128974848", 128974848), ("129e6", 129_000_000), ("1m", 1)],
)
def test_memory_is_counted_in_bytes_and_rounded_up(text: str, expected: int) -> None:
    assert quantity.whole(text) == expected


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1gi", "1e", "one", "1Kib", "--1"])
def test_what_is_no_quantity_is_refused_with_the_text_in_the_error(text: str) -> None:
    with pytest.raises(quantity.BadQuantity, match="is not a Kubernetes quantity"):
        quantity.parse(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_offered_memory_is_never_more_than_asked_memory(size_bytes: int) -> None:
    assert quantity.mib_down(size_bytes) * quantity.MIB <= size_bytes <= quantity.mib_up(size_bytes) * quantity.MIB
