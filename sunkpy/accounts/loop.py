"""The loop of `sunkpy accounts`: read slurmdbd, plan, carry the changes out, and read again, until nothing is left to
change. Some time later, begin again.

slurmdbd drops some changes without an error, so only a second reading proves a change. If changes are still due at
reading number `_ROUNDS`, the loop makes them once more, logs one that slurmdbd has accepted before, and begins again
after `_AGAIN_S` seconds: somebody else may be changing the same thing.

A change that slurmdbd refuses is not sent again before the next comparison. That comes after `_AGAIN_S` seconds,
because slurmdbd refuses some changes only until slurmctld has registered, or after `poll_seconds` if the comparison
before had the same refusal. Only a refusal that the comparison before did not have is logged as a warning.

A long plan takes minutes, in which a person may change the same things. So a reading counts for a second, or for as
long as it took if that is longer. After that, before it changes something that exists, the loop reads slurmdbd and
plans again, and leaves out a change that is no longer due.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import msgspec
import structlog

from sunkpy.accounts.collect import plan_now
from sunkpy.accounts.execute import execute
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.core.accounts import AccountsPlan, Change, describe_change, in_batches
from sunkpy.core.accounts.changes import MakeAccount, MakeMembership
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import LeaseOver, Rejected, SlurmError

_ROUNDS: Final = 3
_AGAIN_S: Final = 2.0
_FRESH_S: Final = 1.0


class AccountsLoop:
    """Keeps slurmdbd in line with the values.

    `problem` says why slurmdbd was not brought in line with them: the values contradict each other, slurmdbd refused a
    change, or the loop has just begun. It is None after a reading that shows no difference. An outage of slurmdbd does
    not change `problem`, nor does a change that slurmdbd drops without an error.
    """

    def __init__(
        self,
        *,
        slurm: Slurm,
        settings: AccountsSettings,
        metrics: AccountsMetrics,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slurm = slurm
        self._settings = settings
        self._metrics = metrics
        self._sleep = sleep
        self._clock = clock
        self._fresh_until_s = float("-inf")
        self._due: frozenset[bytes] = frozenset()
        self._accepted: set[bytes] = set()
        self._refused: dict[bytes, str] = {}
        self._refused_before: frozenset[str] = frozenset()
        self._log = structlog.get_logger("accounts")
        self._logged: tuple[str, ...] = ()
        self.problem: str | None = "slurmdbd does not have the accounts, QoS and users of the values yet"

    async def run(self) -> None:
        """Keep slurmdbd in line with the values until cancelled. If slurmdbd is away, or does not show a change, try
        again after `_AGAIN_S` seconds; if it refuses the same change once more, after `poll_seconds`.

        Raises:
            LeaseOver: this process no longer leads.
        """
        failed = ""
        while True:
            wait_s = _AGAIN_S
            try:
                if await self.settle() or self._is_refused_again:
                    wait_s = self._settings.poll_seconds
                failed = ""
            except LeaseOver:
                raise
            except SlurmError as error:
                log = self._log.debug if error.message == failed else self._log.warning
                log("slurmdbd was not read or changed; trying again", error=error.message)
                failed = error.message
            await self._sleep(wait_s)

    @property
    def _is_refused_again(self) -> bool:
        """True if slurmdbd refused the same changes in the comparison before."""
        return bool(self._refused) and self._refused_before.issuperset(self._refused.values())

    async def settle(self) -> bool:
        """Bring slurmdbd in line with the values. Return False if changes are still due; True if none are, or if the
        values contradict each other.

        Raises:
            SlurmError: slurmdbd could not be read or written.
        """
        self._refused_before = frozenset(self._refused.values())
        self._accepted, self._refused = set(), {}
        dropped: list[Change] = []
        for _ in range(_ROUNDS):
            plan = await self._plan()
            self._log_decisions_of_people(plan)
            if plan.contradictions:
                self.problem = "; ".join(plan.contradictions)
                return True  # nothing to do until one side changes
            if not plan.changes:
                self.problem = None
                self._metrics.settled.set(time.time())
                return True
            unrefused = [change for change in plan.changes if _identity(change) not in self._refused]
            if not unrefused:
                return False
            dropped = [change for change in unrefused if _identity(change) in self._accepted]
            await self._carry_out(unrefused)
        if dropped:
            self._log.warning("slurmdbd accepted a change, but does not show it", change=describe_change(dropped[0]))
        return False

    async def _plan(self) -> AccountsPlan:
        began_s = self._clock()
        settings = self._settings
        plan = await plan_now(self._slurm, settings.wanted, cluster=settings.cluster, is_guest=settings.is_guest)
        read_s = self._clock()
        self._fresh_until_s = read_s + max(_FRESH_S, read_s - began_s)
        self._due = frozenset(map(_identity, plan.changes))
        return plan

    async def _carry_out(self, changes: Iterable[Change]) -> None:
        """Carry out these changes if they are still due. A change that slurmdbd refuses does not stop the others."""
        for batch in in_batches(changes):
            due = await self._still_due(batch)
            if not due or await self._is_done(due) or len(due) == 1:
                continue
            for change in due:
                if one := await self._still_due((change,)):
                    await self._is_done(one)

    async def _still_due(self, batch: Sequence[Change]) -> Sequence[Change]:
        """Return the changes that are still due by a recent reading of slurmdbd. New accounts and memberships are
        returned without a reading, because they change nothing that exists.
        """
        if isinstance(batch[0], MakeAccount | MakeMembership):
            return batch
        if self._clock() > self._fresh_until_s:
            await self._plan()
        return [change for change in batch if _identity(change) in self._due]

    async def _is_done(self, batch: Sequence[Change]) -> bool:
        """Carry out one batch of changes. Return False if slurmdbd refuses it. The refusal is noted only if the batch
        has one change: of several changes, nobody knows which one is wrong.
        """
        try:
            await execute(self._slurm, batch, cluster=self._settings.cluster)
        except Rejected as error:
            if len(batch) == 1:
                self._note_refusal(batch[0], error)
            return False
        for change in batch:
            self._accepted.add(_identity(change))
            self._log.info("changed", change=describe_change(change))
            self._metrics.changes.labels(type(change).__name__).inc()
        return True

    def _note_refusal(self, change: Change, error: Rejected) -> None:
        text = describe_change(change)
        refusal = f"{text}: {error.message}"
        log = self._log.debug if refusal in self._refused_before else self._log.warning
        log("slurmdbd refuses a change", change=text, error=error.message)
        self._refused[_identity(change)] = refusal
        self.problem = error.message

    def _log_decisions_of_people(self, plan: AccountsPlan) -> None:
        """Log what a person has to decide, once and not at each reading."""
        self._metrics.left_alone.set(len(plan.left_alone))
        said = (*plan.contradictions, *plan.left_alone)
        for text in said:
            if text not in self._logged:
                self._log.warning("a person has to decide", what=text)
        self._logged = said


def _identity(change: Change) -> bytes:
    """Return a key that is equal for equal changes."""
    return type(change).__name__.encode() + msgspec.json.encode(change, order="deterministic")
