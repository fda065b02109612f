"""An explanation, and how it looks on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_TITLE_WIDTH = 16


class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Lines of text under one title."""

    title: str
    texts: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """About `subject`: its state in half a sentence, the details, and what a person can do now.

    `is_absent`: there is no such thing to explain.
    """

    subject: str
    standing: str
    lines: tuple[Line, ...] = ()
    what_to_do: str
    is_absent: bool = False


class Explained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to a question of `sunkpy explain`: about one thing, the gangs of one name, or a job and its pod."""

    explanations: tuple[Explanation, ...]

    @property
    def text(self) -> str:
        """The explanation as one text for people."""
        return "\n\n".join(map(render, self.explanations))


def render(explanation: Explanation) -> str:
    """The explanation as people read it: the answer first, what to do last."""
    return "\n".join(_rows(explanation))


def _rows(explanation: Explanation) -> Iterator[str]:
    yield f"{explanation.subject} {explanation.standing}"
    yield ""
    for line in (line for line in explanation.lines if line.texts):
        first, *others = line.texts
        yield f"{line.title:{_TITLE_WIDTH}}{first}"
        yield from (f"{'':{_TITLE_WIDTH}}{text}" for text in others)
    if any(line.texts for line in explanation.lines):
        yield ""
    yield f"{'what to do':{_TITLE_WIDTH}}{explanation.what_to_do}"
