"""Prints the demo's steps while they run, and stores their results in `build/reports/demo.json`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec
from rich.console import Console

Tell = Callable[[str], None]
"""Prints one line about what has just happened."""


class StepFailed(Exception):
    """A step of the demo failed."""


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one step. `detail`: its summary, or the error."""

    step: str
    ok: bool
    seconds: float
    detail: str


class Report:
    """Runs steps one after another, prints them, and writes each result to disk at once."""

    def __init__(self, path: Path, console: Console, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._console = console
        self._clock_s = clock_s
        self.results: list[StepResult] = []

    def run(self, step: str, action: Callable[[Tell], str]) -> None:
        """Run one step. Its result is the line that `action` returns.

        Raises:
            StepFailed: `action` raised an error; the demo cannot go on.
        """
        start_s = self._clock_s()
        console = self._console
        console.rule(step) if console.is_terminal else console.print(f"== {step}")
        with console.status(f"{step} …") if console.is_terminal else nullcontext():
            try:
                detail = action(lambda line: self._tell(line, self._clock_s() - start_s))
            except Exception as error:
                self._keep(StepResult(step=step, ok=False, seconds=self._since(start_s), detail=_text(error)))
                raise StepFailed(f"{step}: {_text(error)}") from error
        self._keep(StepResult(step=step, ok=True, seconds=self._since(start_s), detail=detail))

    @property
    def seconds(self) -> float:
        """The time of all steps together, in seconds."""
        return sum(result.seconds for result in self.results)

    def _since(self, start_s: float) -> float:
        return round(self._clock_s() - start_s, 2)

    def _tell(self, line: str, after_s: float) -> None:
        self._console.print(f"  {after_s:6.1f} s  {line}", markup=False, highlight=False, soft_wrap=True)

    def _keep(self, result: StepResult) -> None:
        self.results.append(result)
        word, colour = ("ok", "green") if result.ok else ("FAILED", "red")
        text = f"{word}  {result.step}: {result.detail} ({result.seconds:.1f} s)"
        self._console.print(text, style=colour, markup=False, highlight=False, soft_wrap=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(msgspec.json.format(msgspec.json.encode(self.results), indent=2) + b"\n")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
