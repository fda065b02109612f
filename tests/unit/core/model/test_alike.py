"""One of each template, in as many steps as there are pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from sunkpy.core.model.alike import one_of_each


@dataclass(eq=False)
class Compared:
    """A value that counts how often it was compared."""

    number: int
    times: ClassVar[int] = 0

    def __eq__(self, other):
        Compared.times += 1
        return self.number == other.number

    __hash__ = None


@pytest.mark.parametrize(
    ("texts", "found"), [("", ""), ("aaa", "a"), ("abab", "ab"), ("aabbcca", "abc"), ("cba", "cba")]
)
def test_the_first_of_each_is_found(texts, found):
    numbered = list(enumerate(texts))
    firsts = list(one_of_each(numbered, lambda item: {"text": item[1]}))
    assert [text for _, text in firsts] == list(found)
    assert [at for at, _ in firsts] == [texts.index(text) for text in found]


@pytest.mark.parametrize("templates", [1, 2, 3, 2000])
def test_each_of_2000_is_compared_once_however_many_templates_there_are(templates):
    traits = [{"image": Compared(number % templates)} for number in range(2000)]
    Compared.times = 0
    assert len(list(one_of_each(traits, lambda trait: trait))) == templates
    assert Compared.times < 2000
