"""What a run saw: the values that `judge` works on. All times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec


class Task(NamedTuple):
    """A job, or one task of an array: names are unique, ids are not. `index` is 0 for a job that is no array."""

    name: str
    index: int

    @property
    def text(self) -> str:
        """`j7`, `j9[2]`."""
        return f"{self.name}[{self.index}]" if self.index else self.name


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asked sbatch for: `tasks` of an array, or 0. `answered_s` is None when it gave no id."""

    name: str
    exit_code: int
    asked_s: float
    answered_s: float | None
    tasks: int = 0

    def all_tasks(self) -> Iterator[Task]:
        """Each of which has a log and a record of its own."""
        indices = range(1, self.tasks + 1) if self.tasks else (0,)
        return (Task(self.name, index) for index in indices)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a script, from what it wrote itself; `end_s` is None when it never wrote that it ended."""

    task: Task
    job: int
    begin_s: float
    end_s: float | None = None


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """One line of squeue. `shown` names one task of an array alone, `job` may name all of them."""

    job: int
    task: Task
    shown: str
    state: str
    start_s: float | None
    reason: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `sacct --duplicates --allocations`. An array's tasks that have not begun are one, of index -1.

    `queued_s` is when it was submitted, or when Slurm queued it again.
    """

    task: Task
    job: int
    state: str
    exit_code: int = 0
    queued_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None

    @property
    def is_done(self) -> bool:
        """It says how the job's script ended."""
        return self.end_s is not None and self.state in ("COMPLETED", "FAILED")

    @property
    def is_open(self) -> bool:
        """It says that the job is not over."""
        return self.end_s is None


class Away(msgspec.Struct, frozen=True):
    """For how long somebody did not answer."""

    from_s: float
    until_s: float


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """SIGKILL for slurmctld: when, when it answered again, and when it had last saved its jobs (its `job_state`)."""

    at_s: float
    back_s: float
    saved_s: float


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything seen, until nothing moved any more.

    `away` were slurmdbd or its database, or both; `ends`: from a SIGTERM to slurmctld until the next one answered.
    """

    submitted: tuple[Submitted, ...]
    runs: tuple[Run, ...]
    rows: tuple[Row, ...]
    kills: tuple[Kill, ...] = ()
    away: tuple[Away, ...] = ()
    ends: tuple[Away, ...] = ()
