"""The answer of `kubectl sunk explain`, and its text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_TITLE_WIDTH = 16


class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an explanation: its title, and the lines of text that belong to it."""

    title: str
    texts: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of one pod, gang, NodeSet, node or job (`subject`), and what a person can do about it.

    `standing`: the state in half a sentence, which continues the subject. `lines`: details. `is_absent`: nothing could
    be explained, because the subject does not exist, is no Slurm node, or could not be looked up, or because the person
    has to name another namespace.
    """

    subject: str
    standing: str
    lines: tuple[Line, ...] = ()
    what_to_do: str
    is_absent: bool = False


class Explained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to one question of `kubectl sunk explain`: one explanation, or several if several objects have the
    name.
    """

    explanations: tuple[Explanation, ...]

    @property
    def text(self) -> str:
        """All explanations as one text for a terminal."""
        return "\n\n".join(map(render, self.explanations))


def render(explanation: Explanation) -> str:
    """Return the explanation as text for a terminal: the state first, what to do last."""
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
