"""The health rules, from values of chart sunkpy: what counts as a signal that a node is sick, and what cures it.

Nothing is a signal unless a rule says so. A rule names one source; `signals` reads what that source shows. The rules
for the site's check (`verification`) and for drains that other programs ask for are built in, not in the values.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from sunkpy.core.model.objects import Node

_BAD_CONDITION = ("True",)
Seconds = Annotated[int, msgspec.Meta(ge=0)]


class Cure(enum.StrEnum):
    """What has to happen before a sick node comes back."""

    CLEAR = "clear"  # the signal has ended
    REBOOT = "reboot"  # the machine has started again; the signal has ended, too, unless it is a drain in Slurm
    PERSON = "person"  # a person says that the node is mended


class Remedy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An object by which the operator asks another program to mend a machine.

    The operator creates it from `manifest`, or writes `annotations` on the existing object `name`. `manifest` lacks
    apiVersion, name and namespace. `resource`: the object's kind in URLs, in the plural. In each text `$(NODE)` is the
    name of the Node, and `$(ANNOTATION key)` the value of the Node's annotation. `outside_windows`: the remedy does not
    wait for a maintenance window of the NodeSet.
    """

    api_version: str
    resource: str
    namespace: str = ""
    name: str = ""
    annotations: dict[str, str] = {}
    manifest: dict[str, object] = {}
    timeout_seconds: Seconds = 1800
    outside_windows: bool = False

    def __post_init__(self) -> None:
        if bool(self.manifest) == bool(self.name and self.annotations):
            raise ValueError("give manifest, or name and annotations of an existing object")

    @property
    def read_annotations(self) -> frozenset[str]:
        """The keys of the Node's annotations whose values the remedy's texts contain (`$(ANNOTATION key)`)."""
        return frozenset(_ANNOTATION.findall(msgspec.json.encode(self).decode()))

    def problem(self, node: Node) -> str:
        """Return why the remedy cannot be used for this Node: the Node lacks an annotation, or an annotation makes an
        invalid name of an object. Empty if the remedy can be used.
        """
        if missing := self.read_annotations - node.annotations.keys():
            return f"the Node has no annotation {', '.join(sorted(missing))}"
        filled = self.filled(node)
        odd = [text for text in (filled.namespace, filled.name) if text and not _NAME.fullmatch(text)]
        return f"{odd[0]!r} is no name of an object" if odd else ""

    def filled(self, node: Node) -> Remedy:
        """Return the remedy for one Node: `$(NODE)` and `$(ANNOTATION key)` in its texts are replaced. The Node must
        have all annotations that the texts name.
        """
        return msgspec.convert(_for_node(msgspec.to_builtins(self), node), Remedy)

    def body(self, name: str) -> dict[str, object]:
        """Return the body of the object to create under this name. `$(…)` in the remedy's texts must be replaced before
        (`filled`).
        """
        metadata = self.manifest.get("metadata")
        own = {"name": name, **({"namespace": self.namespace} if self.namespace else {})}
        merged = {**(metadata if isinstance(metadata, dict) else {}), **own}
        return {**self.manifest, "apiVersion": self.api_version, "metadata": merged}


_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ANNOTATION: Final = re.compile(r"\$\(ANNOTATION ([^)\s]+)\)")


def _for_node(value: object, node: Node) -> object:
    if isinstance(value, str):
        named = value.replace("$(NODE)", node.name)
        return _ANNOTATION.sub(lambda found: node.annotations.get(found[1], ""), named)
    if isinstance(value, dict):
        return {key: _for_node(inner, node) for key, inner in value.items()}
    if isinstance(value, list):
        return [_for_node(inner, node) for inner in value]
    return value


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The rule of one signal that a node is sick. A rule in the values sets exactly one of the first five fields.

    `condition`: the signal is that this condition of the Node has a status in `bad` (True if empty). `label`: this
    label of the Node has a value in `bad`. `taint`: the Node has a taint with this key and a value in `bad` (any value
    if empty). `slurm_reason`: the node is drained in Slurm with a reason that begins with this text. `failed_starts`:
    slurmd is not ready, and the kubelet has restarted its container at least this many times. `patience_seconds`: how
    long the signal has to last before the node is drained. `remedy`: the name of the remedy that begins once no job
    runs on the node.

    Three sources are set only by the code. `failed_verification`: the site's check has failed. `is_request`: somebody
    asks for a check (`verification`). `is_drain_request`: another program asks for a drain (`requests`).
    """

    condition: str = ""
    label: str = ""
    taint: str = ""
    slurm_reason: str = ""
    failed_starts: Seconds = 0
    failed_verification: bool = False
    is_request: bool = False
    is_drain_request: bool = False
    bad: tuple[str, ...] = ()
    patience_seconds: Seconds = 0
    cure: Cure | None = None
    remedy: str = ""

    def __post_init__(self) -> None:
        sources = (self.condition, self.label, self.taint, self.slurm_reason, self.failed_starts)
        if sum(map(bool, (*sources, self.failed_verification, self.is_request, self.is_drain_request))) != 1:
            raise ValueError("give exactly one of condition, label, taint, slurmReason and failedStarts")
        if self.label and not self.bad:
            raise ValueError(f"label {self.label}: give its bad values in bad")
        if self.remedy and self.cured_by is Cure.PERSON:
            raise ValueError(f"remedy {self.remedy}: say in cure what shows that it has helped, clear or reboot")

    @property
    def bad_values(self) -> tuple[str, ...]:
        """The values of the rule's source that count as the signal; empty if any value counts."""
        return self.bad or (_BAD_CONDITION if self.condition else ())

    @property
    def cured_by(self) -> Cure:
        """What cures the node: the rule's `cure`; by default a person for a drain in Slurm, else the signal's end."""
        return self.cure or (Cure.PERSON if self.slurm_reason else Cure.CLEAR)

    @property
    def closes(self) -> bool:
        """True if sunkpy itself has to drain a node that shows this signal; False if the signal is a drain in Slurm."""
        return not self.slurm_reason


class HealthRules(msgspec.Struct, frozen=True, kw_only=True):
    """All health rules and remedies by name, the strongest rule first, and the limits of patience.

    `settle_s`: how long a signal has to be gone before the node opens. `person_after_s`: after this long without a cure
    the node needs a person. `most_returns`: a node that came back this often in a day needs a person to open it again.
    """

    signals: Mapping[str, Rule] = {}
    remedies: Mapping[str, Remedy] = {}
    settle_s: int = 60
    person_after_s: int = 3600
    most_returns: int = 3
