"""What counts as a signal that a node is sick, and what takes it away: values of chart sunkpy.

Nothing is a signal unless a rule says so. A rule names one source; what that shows is told by `signals`.
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
    """What has to happen before the node comes back."""

    CLEAR = "clear"  # the signal has ended
    REBOOT = "reboot"  # the machine has started again since the drain, and a signal other than Slurm's reason has ended
    PERSON = "person"  # somebody says so


class Remedy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An object by which another program is asked to mend a machine: it is created, or gets annotations if it exists.

    `resource` is its kind as URLs have it, in the plural. `manifest`: a new object but for apiVersion, name and
    namespace. `name` and `annotations`: those of an object that is there. In each text `$(NODE)` is the name of the
    Node, and `$(ANNOTATION key)` what an annotation of it says. `outside_windows`: it does not wait for a window of the
    NodeSet.
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
            raise ValueError("give manifest, or name and annotations of an object that is there")

    @property
    def read_annotations(self) -> frozenset[str]:
        """The annotations of the Node that its texts name."""
        return frozenset(_ANNOTATION.findall(msgspec.json.encode(self).decode()))

    def problem(self, node: Node) -> str:
        """Why the remedy cannot be asked for on this Node: its annotations may say anything."""
        if missing := self.read_annotations - node.annotations.keys():
            return f"the Node has no annotation {', '.join(sorted(missing))}"
        filled = self.filled(node)
        odd = [text for text in (filled.namespace, filled.name) if text and not _NAME.fullmatch(text)]
        return f"{odd[0]!r} is no name of an object" if odd else ""

    def filled(self, node: Node) -> Remedy:
        """The remedy for one Node, which has all annotations that the remedy names."""
        return msgspec.convert(_for_node(msgspec.to_builtins(self), node), Remedy)

    def body(self, name: str) -> dict[str, object]:
        """The body of the new object; the remedy is filled for a Node."""
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
    """The rule of one signal. Exactly one of the first five fields is set.

    `condition`: a condition of the Node is one of `bad` (True if empty). `label`: that label of the Node is one of
    `bad`. `taint`: a taint of this key is there, with one of `bad` as its value (any if empty). `slurm_reason`: Slurm
    drained the node, or somebody did there, with a reason that begins so. `failed_starts`: slurmd is not ready, and
    its container was started again so many times. `remedy`: what is done once nothing runs on the node, by name.

    `failed_verification`: the site's check has failed; `is_request`: somebody asks for it (`verification`).
    `is_drain_request`: another program asks for a drain (`requests`). No value sets these.
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
        """The values of the source that are a signal; empty: any value is."""
        return self.bad or (_BAD_CONDITION if self.condition else ())

    @property
    def cured_by(self) -> Cure:
        """What the rule says. If it says nothing: a drain of Slurm's side is for a person, any other signal may end by
        itself.
        """
        return self.cure or (Cure.PERSON if self.slurm_reason else Cure.CLEAR)

    @property
    def closes(self) -> bool:
        """True if sunkpy has to drain the node for it. For a reason in Slurm, Slurm has drained it."""
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
