"""What counts as a signal that a node is sick, and what takes it away: values of chart sunkpy.

Nothing is a signal unless a rule says so. A rule names one source; what that shows is told by `signals`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated

import msgspec

_BAD_CONDITION = ("True",)
Seconds = Annotated[int, msgspec.Meta(ge=0)]


class Cure(enum.StrEnum):
    """What has to happen before the node comes back."""

    CLEAR = "clear"  # the signal has ended
    REBOOT = "reboot"  # the machine has started again since the drain, and a signal other than Slurm's reason has ended
    PERSON = "person"  # somebody says so


class Remedy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An object by which some other program makes a sick machine whole: a Job, a custom resource.

    `resource` is its kind as URLs have it, in the plural. `manifest`: the object but for apiVersion, name and
    namespace; in each text `$(NODE)` is the name of the Node.
    """

    api_version: str
    resource: str
    namespace: str = ""
    manifest: dict[str, object]
    timeout_seconds: Seconds = 1800

    def body(self, name: str, node: str) -> dict[str, object]:
        """The object for one Node."""
        body = {key: _for_node(value, node) for key, value in self.manifest.items()}
        metadata = body.get("metadata")
        own = {"name": name, **({"namespace": self.namespace} if self.namespace else {})}
        merged = {**(metadata if isinstance(metadata, dict) else {}), **own}
        return {**body, "apiVersion": self.api_version, "metadata": merged}


def _for_node(value: object, node: str) -> object:
    if isinstance(value, str):
        return value.replace("$(NODE)", node)
    if isinstance(value, dict):
        return {key: _for_node(inner, node) for key, inner in value.items()}
    if isinstance(value, list):
        return [_for_node(inner, node) for inner in value]
    return value


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One signal; exactly one of the first five is set.

    `condition`: a condition of the Node is one of `bad` (True if empty). `label`: that label of the Node is one of
    `bad`. `taint`: a taint of this key is there, with one of `bad` as its value (any if empty). `slurm_reason`: Slurm
    drained the node, or somebody did there, with a reason that begins so. `failed_starts`: slurmd is not ready, and
    its container was started again so many times. `remedy`: what is done once nothing runs on the node, by name.

    `failed_verification`: the site's check has failed (`verification`); no value sets it.
    """

    condition: str = ""
    label: str = ""
    taint: str = ""
    slurm_reason: str = ""
    failed_starts: Seconds = 0
    failed_verification: bool = False
    bad: tuple[str, ...] = ()
    patience_seconds: Seconds = 0
    cure: Cure | None = None
    remedy: str = ""

    def __post_init__(self) -> None:
        sources = (self.condition, self.label, self.taint, self.slurm_reason, self.failed_starts)
        if sum(map(bool, (*sources, self.failed_verification))) != 1:
            raise ValueError("give exactly one of condition, label, taint, slurmReason and failedStarts")
        if self.label and not self.bad:
            raise ValueError(f"label {self.label}: give its bad values in bad")
        if self.remedy and self.cured_by is Cure.PERSON:
            raise ValueError(f"remedy {self.remedy}: say in cure what shows that it has helped, clear or reboot")

    @property
    def bad_values(self) -> tuple[str, ...]:
        """Those that are a signal; empty: any."""
        return self.bad or (_BAD_CONDITION if self.condition else ())

    @property
    def cured_by(self) -> Cure:
        """As the rule says; else a drain of Slurm's side is for a person, and any other signal may end by itself."""
        return self.cure or (Cure.PERSON if self.slurm_reason else Cure.CLEAR)

    @property
    def closes(self) -> bool:
        """sunkpy has to drain the node for it; of a reason in Slurm, Slurm has."""
        return not self.slurm_reason


class HealthRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rules by name, the strongest first, and how patient sunkpy is.

    `settle_s`: how long a signal has to be gone. `person_after_s`: after so long without a cure a person is asked for.
    `most_returns`: a node that came back so often in a day stays, and a person is asked for.
    """

    signals: Mapping[str, Rule] = {}
    remedies: Mapping[str, Remedy] = {}
    settle_s: int = 60
    person_after_s: int = 3600
    most_returns: int = 3
