import pytest

from sunkpy.core.growth.constraint import NotUnderstood, satisfies


@pytest.mark.parametrize(
    ("constraint", "has"),
    [
        ("", True),
        ("a", True),
        ("c", False),
        ("a&b", True),
        ("a&c", False),
        ("c|a", True),
        ("c|d", False),
        ("a&(c|b)", True),
        ("a&(c|d)", False),
        ("(c|d)|a&b", True),
        ("[a|b]", True),
        ("[c|d]", False),
        ("a, b", True),
        ("k8s/zone=z1", True),
        ("k8s/zone=z2", False),
    ],
)
def test_a_node_has_what_is_asked_for_or_not(constraint, has):
    assert satisfies(constraint, {"a", "b", "k8s/zone=z1"}) is has


@pytest.mark.parametrize("constraint", ["[a*2&b*4]", "{a|b}", "a&", "(a", "a)", "&", "[a|b)"])
def test_what_it_cannot_tell_it_does_not_guess(constraint):
    with pytest.raises(NotUnderstood):
        satisfies(constraint, {"a", "b"})


def test_a_constraint_without_end_is_not_understood_at_once():
    for constraint in ("(" * 2000 + "a" + ")" * 2000, "(" * 400 + "a" + ")" * 400, "|".join(["a"] * 16_000)):
        with pytest.raises(NotUnderstood):
            satisfies(constraint, {"a"})
