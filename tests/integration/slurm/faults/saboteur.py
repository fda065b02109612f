"""What is killed and cut off, and when: from the seed alone, one step after the other.

slurmctld is killed while accounting answers; slurmdbd and MariaDB are away while slurmctld lives, or is told to end;
last, slurmctld is killed while they are away, which is the one thing that accounting cannot bear. A part that is killed
is started again as its container is; one that is cut off is stopped, so that its connections stay and nobody answers.
slurmctld is not killed then: the next one would wait for an answer before it does anything (docs/surprises.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Final

import msgspec

from devcluster.waiting import wait_until
from tests.integration.slurm.daemons import RealAccounting
from tests.integration.slurm.faults.record import Away, Kill
from tests.integration.slurm.site import Site

Tell = Callable[[str], None]
STARTS_S: Final = 120.0
TOLD_S: Final = 60.0
FORGETS_S: Final = 3.0
"""How much later start-slurmctld sees that slurmdbd has got what a slurmctld that ended in order had left to send."""
_QUEUE: Final = re.compile(r"DBD Agent queue size: (\d+)")


class Fault(enum.StrEnum):
    """What is done. A cut lasts longer than any of the two waits for an answer, or shorter."""

    SLURMCTLD = "kill -9 slurmctld"
    SLURMDBD = "kill -9 slurmdbd"
    MARIADB = "kill -9 MariaDB"
    BOTH = "kill -9 slurmdbd and MariaDB"
    CUT_SLURMDBD = "cut off slurmdbd"
    CUT_MARIADB = "cut off MariaDB"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, which lasts `lasts_s`. Half-way slurmctld gets SIGKILL or SIGTERM. Then `rest_s` pass."""

    fault: Fault
    lasts_s: float = 0.0
    is_killed: bool = False
    is_ended: bool = False
    rest_s: float = 0.0


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How often slurmctld is killed, alone and while accounting is away; how long that is; a job each `every_s`."""

    alone: int = 16
    rests_s: tuple[float, float] = (3.0, 7.0)
    dead_s: float = 10.0
    cut_s: float = 45.0
    with_both: int = 4
    with_end: tuple[Fault, ...] = (Fault.SLURMDBD, Fault.MARIADB)
    every_s: float = 1.0
    dead: tuple[Fault, ...] = (Fault.SLURMDBD, Fault.MARIADB, Fault.BOTH)
    cut: tuple[Fault, ...] = (Fault.CUT_SLURMDBD, Fault.CUT_MARIADB)


QUICK: Final = Sizes(
    alone=4, rests_s=(1.0, 3.0), dead_s=2.0, cut_s=3.0, with_both=0, with_end=(), every_s=0.7,
    dead=(Fault.BOTH,), cut=(Fault.CUT_MARIADB,),
)  # fmt: skip


def plan_steps(seed: int, sizes: Sizes) -> tuple[Step, ...]:
    """The steps of a run; what ends in a loss comes last."""
    rng = random.Random(seed)
    kills = [Step(fault=Fault.SLURMCTLD, rest_s=rng.uniform(*sizes.rests_s)) for _ in range(sizes.alone)]
    dead = [Step(fault=fault, lasts_s=sizes.dead_s) for fault in sizes.dead]
    cut = [Step(fault=fault, lasts_s=sizes.cut_s) for fault in sizes.cut]
    ended = [Step(fault=fault, lasts_s=sizes.dead_s, is_ended=True, rest_s=FORGETS_S) for fault in sizes.with_end]
    both = [
        Step(fault=rng.choice((Fault.SLURMDBD, Fault.MARIADB)), lasts_s=sizes.dead_s, is_killed=True)
        for _ in range(sizes.with_both)
    ]
    steps = kills + dead + cut + ended
    rng.shuffle(steps)
    return (*steps, *both)


def longest_s(steps: tuple[Step, ...]) -> float:
    """How long they take when every start takes a second or two."""
    return sum(step.lasts_s + step.rest_s + 3 for step in steps)


class Saboteur:
    """One run's hands on a site. `kills`, `away` and `ends` tell what they have done."""

    def __init__(self, site: Site, tell: Tell) -> None:
        self._site, self._tell = site, tell
        self._started_s = time.time()
        self.kills: list[Kill] = []
        self.away: list[Away] = []
        self.ends: list[Away] = []

    async def run(self, steps: tuple[Step, ...]) -> None:
        """One step after the other.

        First slurmctld ends in order: else it has not kept what slurmdbd told it, and would wait for slurmdbd.
        """
        await asyncio.to_thread(self._end_slurmctld)
        for step in steps:
            await asyncio.to_thread(self._step, step)
            await asyncio.sleep(step.rest_s)

    def _step(self, step: Step) -> None:
        accounting = self._site.accounting
        if step.fault is Fault.SLURMCTLD:
            self._kill_slurmctld()
            return
        began_s = time.time()
        self._begin(step.fault, accounting)
        if step.is_killed or step.is_ended:
            time.sleep(step.lasts_s / 2)
        if step.is_killed:
            self._kill_slurmctld()
        if step.is_ended:
            self._end_slurmctld()
        time.sleep(max(began_s + step.lasts_s - time.time(), 0.0))
        self._end(step.fault, accounting)
        back_s = time.time()
        wait_until(lambda: untold(self._site) == 0, timeout_s=TOLD_S, every_s=0.5)
        self.away.append(Away(began_s, back_s))
        self._say(f"{step.fault} for {back_s - began_s:.0f} s, all told {time.time() - back_s:.1f} s later")

    def _kill_slurmctld(self) -> None:
        had_saved_s, at_s = saved_s(self._site), time.time()
        took_s = signal_slurmctld(self._site, "KILL")
        self.kills.append(Kill(at_s=at_s, back_s=at_s + took_s, saved_s=had_saved_s))
        self._say(f"kill -9 slurmctld, {at_s - had_saved_s:.1f} s after it had saved; back in {took_s:.1f} s")

    def _end_slurmctld(self) -> None:
        at_s = time.time()
        took_s = signal_slurmctld(self._site, "TERM")
        self.ends.append(Away(at_s, at_s + took_s))
        self._say(f"slurmctld told to end, back in {took_s:.1f} s")

    def _begin(self, fault: Fault, accounting: RealAccounting) -> None:
        match fault:
            case Fault.CUT_SLURMDBD:
                accounting.slurmdbd.send_signal(signal.SIGSTOP)
            case Fault.CUT_MARIADB:
                accounting.mariadb.send_signal(signal.SIGSTOP)
            case _:
                for part in _dead(fault, accounting):
                    part.kill()
                    part.wait()

    def _end(self, fault: Fault, accounting: RealAccounting) -> None:
        match fault:
            case Fault.CUT_SLURMDBD:
                accounting.slurmdbd.send_signal(signal.SIGCONT)
            case Fault.CUT_MARIADB:
                accounting.mariadb.send_signal(signal.SIGCONT)
        if accounting.mariadb.poll() is not None:
            accounting.start_mariadb()
        if accounting.slurmdbd.poll() is not None:
            accounting.start_slurmdbd()

    def _say(self, text: str) -> None:
        self._tell(f"{time.time() - self._started_s:5.0f} s: {text}")


def _dead(fault: Fault, accounting: RealAccounting) -> tuple[subprocess.Popen[bytes], ...]:
    """The processes that a fault kills."""
    parts = {Fault.SLURMDBD: (accounting.slurmdbd,), Fault.MARIADB: (accounting.mariadb,)}
    return parts.get(fault, (accounting.slurmdbd, accounting.mariadb))


def signal_slurmctld(site: Site, signal_: str) -> float:
    """Seconds until the next one answered."""
    slurm, at_s = site.slurm, time.time()
    starts = slurm.starts("slurmctld")
    slurm.send(signal_, "slurmctld")
    is_back = wait_until(lambda: slurm.starts("slurmctld") > starts and answers(site), timeout_s=STARTS_S, every_s=0.1)
    if not is_back:
        raise TimeoutError(f"slurmctld is not back {STARTS_S:g} s after SIG{signal_}:\n{site.logs()}")
    return time.time() - at_s


def answers(site: Site) -> bool:
    """slurmctld is up."""
    return site.slurm.run_as("slurm", "scontrol", "ping")[0] == 0


def untold(site: Site) -> int | None:
    """How many messages slurmctld keeps for slurmdbd; None when it does not say."""
    found = _QUEUE.search(site.slurm.run_as("slurm", "sdiag")[1])
    return int(found[1]) if found else None


def saved_s(site: Site) -> float:
    """When slurmctld last saved its jobs; 0 when it never did."""
    state = site.slurm.root / "var/lib/slurm/state"
    for name in ("job_state", "job_state.old"):  # which alone is there while slurmctld replaces the other
        with contextlib.suppress(FileNotFoundError):
            return (state / name).stat().st_mtime
    return 0.0
