import pytest

from sunkpy.operator.create import slow_start


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (3, [1, 2]), (6, [1, 2, 3]), (40, [1, 2, 4, 8, 16, 9])]
)
def test_creation_starts_with_one_and_doubles(count, sizes):
    items = list(range(count))
    batches = list(slow_start(items))
    assert [len(batch) for batch in batches] == sizes
    assert [item for batch in batches for item in batch] == items
