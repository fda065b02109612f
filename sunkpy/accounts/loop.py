"""The loop: read slurmdbd, plan, carry the changes out, read again, until nothing is left to change; later again.

slurmdbd keeps silent about what it drops, so only a second reading proves a change. A change that is still due after
`_ROUNDS` readings is told and tried again later: somebody else may be changing the same thing.

A long plan takes minutes, in which a person may take over what it changes. So what was read counts for a second, or for
as long as the reading took; after that it is read and planned anew, and a change that is no longer due is not made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import structlog

from sunkpy.accounts.collect import plan_now
from sunkpy.accounts.execute import execute
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.core.accounts import Change, Plan, in_batches, tell_change
from sunkpy.core.accounts.changes import MakeAccount, MakeMembership
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import LeaseOver, Rejected, SlurmError

_ROUNDS: Final = 3
_AGAIN_S: Final = 2.0
_FRESH_S: Final = 1.0


class AccountsLoop:
    """`problem` is what keeps slurmdbd from saying what values say; None once it did."""

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
        self._log = structlog.get_logger("accounts")
        self._told: tuple[str, ...] = ()
        self.problem: str | None = "slurmdbd was not read yet"

    async def run(self) -> None:
        """Until cancelled. slurmdbd that is away, or refuses something, is asked again soon."""
        while True:
            try:
                is_settled = await self.settle()
            except LeaseOver:
                raise
            except SlurmError as error:
                self._log.warning("slurmdbd does not do it", error=error.message)
                is_settled = False
            await self._sleep(self._settings.poll_seconds if is_settled else _AGAIN_S)

    async def settle(self) -> bool:
        """Make slurmdbd say what values say; False when changes are still due.

        Raises:
            SlurmError: slurmdbd could not be read or written.
        """
        for _ in range(_ROUNDS):
            plan = await self._plan()
            self._tell(plan)
            if plan.contradictions:
                self.problem = "; ".join(plan.contradictions)
                return True  # as long as neither side changes
            if not plan.changes:
                self.problem = None
                self._metrics.settled.set(time.time())
                return True
            await self._carry_out(plan)
        self._log.warning("still due after it was written", change=tell_change(plan.changes[0]))
        return False

    async def _plan(self) -> Plan:
        began_s = self._clock()
        plan = await plan_now(self._slurm, self._settings.wanted, cluster=self._settings.cluster)
        read_s = self._clock()
        self._fresh_until_s = read_s + max(_FRESH_S, read_s - began_s)
        self._due = frozenset(map(_identity, plan.changes))
        return plan

    async def _carry_out(self, plan: Plan) -> None:
        """All that can be done: what slurmdbd refuses does not keep the rest from it."""
        for batch in in_batches(plan.changes):
            due = await self._still_due(batch)
            if not due or await self._is_done(due) or len(due) == 1:
                continue
            for change in due:
                if one := await self._still_due((change,)):
                    await self._is_done(one)

    async def _still_due(self, batch: Sequence[Change]) -> Sequence[Change]:
        """Those that a reading of this moment asks for. What is only made needs none: what is there stays."""
        if isinstance(batch[0], MakeAccount | MakeMembership):
            return batch
        if self._clock() > self._fresh_until_s:
            await self._plan()
        return [change for change in batch if _identity(change) in self._due]

    async def _is_done(self, batch: Sequence[Change]) -> bool:
        """False when slurmdbd refuses it; of several that may be for one of them, so only one alone is told."""
        try:
            await execute(self._slurm, batch, cluster=self._settings.cluster)
        except Rejected as error:
            if len(batch) == 1:
                self.problem = error.message
                self._log.warning("slurmdbd refuses it", change=tell_change(batch[0]), error=error.message)
            return False
        for change in batch:
            self._log.info("changed", change=tell_change(change))
            self._metrics.changes.labels(type(change).__name__).inc()
        return True

    def _tell(self, plan: Plan) -> None:
        """What a person has to do something about, once and not at each reading."""
        self._metrics.left_alone.set(len(plan.left_alone))
        said = (*plan.contradictions, *plan.left_alone)
        for text in said:
            if text not in self._told:
                self._log.warning("for a person to decide", what=text)
        self._told = said


def _identity(change: Change) -> bytes:
    """Equal for equal changes."""
    return type(change).__name__.encode() + msgspec.json.encode(change, order="deterministic")
