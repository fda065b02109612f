from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.page.delta import diff_tables
from sunkpy.core.page.rows import HeadRow

rows = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xy")), unique_by=lambda each: each[0])


def as_table(pairs):
    return {"t": {key: HeadRow(headline=value) for key, value in pairs}}


def applied(table, change):
    """As the script of the page does it."""
    table = {key: row for key, row in table.items() if key not in change.gone} | dict(change.set)
    return {key: table[key] for key in change.order} if change.order else table


@given(rows, rows)
def test_a_difference_leads_from_one_table_to_the_other_in_its_order(old, new):
    old, new = as_table(old), as_table(new)
    changes = diff_tables(old, new)
    result = applied(old["t"], changes["t"]) if changes else old["t"]
    assert list(result.items()) == list(new["t"].items())


def test_what_stays_is_not_sent():
    old, new = as_table([("a", "x"), ("b", "x"), ("c", "x")]), as_table([("a", "x"), ("c", "y"), ("d", "x")])
    change = diff_tables(old, new)["t"]
    assert ([key for key, _ in change.set], change.gone, change.order) == (["c", "d"], ("b",), ())
    assert diff_tables(old, old) == {}
