"""Metrics of fair share, under the names that other exporters of Slurm use. Only `…_effective_usage` has a name of its
own, because it is not the figure that those exporters call usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.figures.family import MetricFamily, Sample


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The fair share of an account (no `user`), or of a user in an account, as sshare(1) shows it.

    `norm_shares`, `effective_usage`: parts of the parent's shares and usage, 0 to 1. `usage_s`: seconds of TRES,
    weighted as for billing and halved each PriorityDecayHalfLife. `factor`: the fair-share factor, 0 to 1; jobs with a
    higher one go first. An account has no factor.
    """

    account: str
    user: str
    norm_shares: float
    effective_usage: float
    usage_s: int
    factor: float


_FIGURES: Final[Mapping[str, tuple[str, Callable[[Share], float]]]] = {
    "": (
        "Fair share factor of the user in the account, 0 to 1. Jobs with a higher factor start first",
        lambda share: share.factor,
    ),
    "_norm_shares": (
        "Share of the parent account's resources that this account or user should get, 0 to 1",
        lambda share: share.norm_shares,
    ),
    "_effective_usage": (
        "Share of the parent account's usage that this account or user caused, 0 to 1",
        lambda share: share.effective_usage,
    ),
}


def share_families(shares: Sequence[Share]) -> Iterator[MetricFamily]:
    """Yield metrics `slurm_user_fairshare*` and `slurm_account_fairshare_*`. There is no `slurm_account_fairshare`,
    because Slurm has no factor for accounts.
    """
    users = [share for share in shares if share.user]
    accounts = [share for share in shares if not share.user]
    for end, (text, of) in _FIGURES.items():
        samples = [Sample((share.account, share.user), of(share)) for share in users]
        yield MetricFamily(name=f"slurm_user_fairshare{end}", help=text, labels=("account", "user"), samples=samples)
        if end:
            samples = [Sample((share.account,), of(share)) for share in accounts]
            yield MetricFamily(name=f"slurm_account_fairshare{end}", help=text, labels=("account",), samples=samples)
