"""Fair share by account and user."""

from __future__ import annotations

from sunkpy.core.figures.shares import Share, share_families

CHEM = Share(account="chem", user="", norm_shares=0.4, effective_usage=0.7, usage_s=9, factor=0.0)
ANN = Share(account="chem", user="ann", norm_shares=0.5, effective_usage=0.2, usage_s=4, factor=0.8)


def test_a_user_has_a_factor_in_each_account_and_an_account_has_none() -> None:
    found = {(f.name, labels): value for f in share_families([CHEM, ANN]) for labels, value in f.samples}
    assert found == {
        ("slurm_user_fairshare", ("chem", "ann")): 0.8,
        ("slurm_user_fairshare_norm_shares", ("chem", "ann")): 0.5,
        ("slurm_user_fairshare_effective_usage", ("chem", "ann")): 0.2,
        ("slurm_account_fairshare_norm_shares", ("chem",)): 0.4,
        ("slurm_account_fairshare_effective_usage", ("chem",)): 0.7,
    }
