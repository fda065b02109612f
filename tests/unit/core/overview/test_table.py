import pytest

from sunkpy.core.overview.table import Table, count, first_of, printable, render_table

TABLE = Table(titles=("NAME", "WHY", "N"), rows=(("a", "", "10"), ("longer", "x", "1")), wide=frozenset({"WHY"}))


def test_columns_are_as_wide_as_their_longest_text_and_some_only_where_they_are_wanted():
    assert list(render_table(TABLE)) == ["NAME     N", "a        10", "longer   1"]
    assert list(render_table(TABLE, is_wide=True)) == ["NAME     WHY   N", "a        -     10", "longer   x     1"]


def test_a_table_without_rows_is_nothing():
    assert list(render_table(Table(titles=("NAME",), rows=()))) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("two\nlines\tof it", "two lines of it"),
        ("\x1b[2Jgone", "?[2Jgone"),
        ("right\u202eleft", "right?left"),
        ("Grüße ×2", "Grüße ×2"),
    ],
)
def test_anybodys_text_is_shown_as_text(text, shown):
    assert printable(text) == shown


def test_numbers_and_lists_are_words():
    assert [count(1, "job"), count(2, "job"), count(0, "pod")] == ["1 job", "2 jobs", "0 pods"]
    assert first_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert first_of(["a", "b"], 2) == "a, b"
