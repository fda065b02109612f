"""Whether the chart that made a NodeSet, with its syncer and scheduler, has a version that fits this operator.

Upgrades go chart sunkpy first, then chart slurm, one minor version at a time (docs/tasks/upgrade.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sunkpy import __version__

_LABEL: Final = "helm.sh/chart"
_VERSION: Final = re.compile(r"(?:slurm-)?(\d+)\.(\d+)\.\S+")


def version_skew(labels: Mapping[str, str], *, operator: str = __version__) -> str:
    """Return a text if the chart version in a NodeSet's labels does not fit the operator's version, with what to do;
    empty if it fits or a version is not known.
    """
    chart = labels.get(_LABEL, "")
    theirs, ours = _VERSION.fullmatch(chart), _VERSION.fullmatch(operator)
    if theirs is None or ours is None or not chart.startswith("slurm-"):
        return ""
    (major, minor), (our_major, our_minor) = (tuple(map(int, each.groups())) for each in (theirs, ours))
    what = f"chart slurm {chart.removeprefix('slurm-')} with operator {operator}"
    if (major, minor) > (our_major, our_minor):
        return f"{what}: upgrade chart sunkpy, which comes first"
    if major != our_major or our_minor - minor > 1:
        return f"{what}: upgrade chart slurm; they may be at most one minor version apart"
    return ""
