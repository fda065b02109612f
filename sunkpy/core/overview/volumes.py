"""Problems with the volumes of slurmctld and MariaDB, as their containers `volumes` measure them.

The bounds are those of the chart's alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from sunkpy.core.overview.backups import span

FILLING: Final = 0.85
NOT_SAVED_S: Final = 600.0


class VolumesOfPod(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod of slurmctld or MariaDB reports about its volumes.

    `used`: PersistentVolumeClaim → the used part of its bytes or inodes, 0 to 1. `job_state_saved`: when slurmctld last
    saved its jobs, in seconds since 1970. `is_closed`: the pod's metrics need the token of `metricsSecret`.
    """

    pod: str
    used: Mapping[str, float] = {}
    job_state_saved: float | None = None
    is_closed: bool = False


def volume_problems(watched: Iterable[VolumesOfPod], now: float, *, is_up: bool) -> Iterator[str]:
    """Yield a text for each problem: a volume is nearly full, or slurmctld has not saved its jobs for too long.

    `is_up`: slurmctld runs, so that it should save its jobs.
    """
    found = list(watched)
    used = {claim: part for each in found for claim, part in each.used.items()}
    yield from (f"volume {claim} is {part:.0%} full" for claim, part in sorted(used.items()) if part > FILLING)
    saved = [each.job_state_saved for each in found if each.job_state_saved is not None]
    if is_up and saved and now - max(saved) > NOT_SAVED_S:
        yield f"slurmctld has not saved its jobs for {span(now - max(saved))}"
