"""What one leader remembers of NodeSets between passes.

No job's safety depends on it, and a new leader starts without it: it asks about each template again before it rolls one
out, writes the budgets again, and tries failed pods again after the shortest pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sunkpy.core.model.objects import Key, Node, Pod
from sunkpy.core.nodeset.actions import CreatePod, NodeSetAction
from sunkpy.core.nodeset.slurmd_pod import node_of, offer_lasts_s, template_hash
from sunkpy.core.nodeset.spec import NodeSet, NodeSetSpec
from sunkpy.core.nodeset.world import WAVE
from sunkpy.operator.pod_index import nodeset_key

GUARD_LASTS_S = 300.0
"""The seconds after which a disruption budget is written again, because somebody may have deleted it."""

_SMALLEST_WAVE = 50  # each pass costs time, and each wave an Event

CREATED_PER_S = WAVE
"""The most slurmd pods that are created each second. When a slurmd starts, it fetches its configuration and registers.
It registers under slurmctld's write lock for nodes, which holds up everything else in Slurm. `WAVE` bounds a burst, and
this the rate.
"""


@dataclass
class _Notes:
    """What is remembered of one NodeSet. Refusal, acceptance and vetting belong to a template, known by its hash;
    `hash` is that of `spec`. The budget belongs to a uid.

    `room`: how many pods might have been created at the time `room_at_s`; it grows again with time. `offers`: pod uid →
    what its node offers now instead of what the pod was made for, and since when. `idle`: pod uid → since when nothing
    runs there.
    """

    spec: NodeSetSpec | None = None
    hash: str = ""
    refusal: str = ""
    refused_hash: str = ""
    accepted_hash: str = ""
    vetted_hash: str = ""
    guarded_uid: str = ""
    guarded_at_s: float = 0.0
    room: float = WAVE
    room_at_s: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    offers: dict[str, tuple[str, float]] = field(default_factory=dict)
    idle: dict[str, float] = field(default_factory=dict)


class Memory:
    """What the leader remembers of NodeSets: refusals, failures, budgets, changed offers, and the nodes for which a pod
    is being created.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._notes: dict[Key, _Notes] = {}
        self._claims: set[str] = set()

    def forget(self, key: Key) -> None:
        """Forget a NodeSet that is gone. One of the same name would be another."""
        self._notes.pop(key, None)

    # ------------------------------------------------------------- templates

    def refusal(self, nodeset: NodeSet) -> str:
        """Return why the apiserver refused a pod of the current template; empty if it has not."""
        notes = self._of(nodeset)
        return notes.refusal if notes.refused_hash == notes.hash else ""

    def note_refusal(self, nodeset: NodeSet, text: str) -> None:
        """Note why the apiserver refused a pod of the current template. An empty text means: it accepted one."""
        notes = self._of(nodeset)
        notes.refusal, notes.refused_hash = text, notes.hash
        notes.accepted_hash = "" if text else notes.hash

    def is_accepted(self, nodeset: NodeSet) -> bool:
        """True if the last pod that was created or tried was of the current template and was accepted."""
        notes = self._of(nodeset)
        return notes.accepted_hash == notes.hash

    def is_vetted(self, nodeset: NodeSet) -> bool:
        """True if the apiserver was asked about the current template and has nothing against it."""
        notes = self._of(nodeset)
        return notes.vetted_hash == notes.hash and not self.refusal(nodeset)

    def note_vetted(self, nodeset: NodeSet) -> None:
        """Note that the apiserver was asked about the current template."""
        notes = self._of(nodeset)
        notes.vetted_hash = notes.hash

    # ----------------------------------------------------------------- waves

    def room_to_create(self, nodeset: NodeSet) -> int:
        """Return how many pods may be created now: at first a wave, then `CREATED_PER_S`. It is 0 until there is room
        for a few at once.
        """
        notes, now_s = self._of(nodeset), self._clock()
        notes.room = min(WAVE, notes.room + (now_s - notes.room_at_s) * CREATED_PER_S)
        notes.room_at_s = now_s
        return int(notes.room) if notes.room >= _SMALLEST_WAVE else 0

    def note_created(self, nodeset: NodeSet, count: int) -> None:
        """Note how many pods are being created."""
        self._of(nodeset).room -= count

    # --------------------------------------------------------------- budgets

    def is_guarded(self, nodeset: NodeSet) -> bool:
        """True if the disruption budget of this NodeSet, not of an earlier one of its name, was written lately."""
        notes = self._of(nodeset)
        return notes.guarded_uid == nodeset.uid and self._clock() - notes.guarded_at_s < GUARD_LASTS_S

    def note_guarded(self, nodeset: NodeSet) -> None:
        """Note that the NodeSet's disruption budget was written or refused: it is not tried again soon."""
        notes = self._of(nodeset)
        notes.guarded_uid, notes.guarded_at_s = nodeset.uid, self._clock()

    # -------------------------------------------------------------- failures

    def failures(self, nodeset: NodeSet) -> Mapping[str, int]:
        """Return how often in a row the pod of each node has failed. It is a copy, which does not change later."""
        return dict(self._of(nodeset).failures)

    def note_failure(self, nodeset: NodeSet, pod: Pod) -> None:
        """Note a failed pod: the pause before the next pod on its node doubles."""
        failures = self._of(nodeset).failures
        failures[node_of(pod)] = failures.get(node_of(pod), 0) + 1

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Forget the failures on the node of a pod that is Ready. The next pause is the shortest again."""
        key = nodeset_key(new) if new is not None else None
        if new is None or key is None or not new.is_condition_true("Ready"):
            return
        notes = self._notes.get(key)
        if notes is not None:
            notes.failures.pop(node_of(new), None)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Forget the failures of a Node that is gone."""
        if old is not None and new is None:
            for notes in self._notes.values():
                notes.failures.pop(old.name, None)

    # ---------------------------------------------------------------- offers

    def lasting_offers(self, nodeset: NodeSet, changed: Mapping[str, str]) -> tuple[frozenset[str], float | None]:
        """Return the pods (by uid) whose nodes have offered something other than they were made for long enough.

        The second value says after how many seconds there may be more of these pods.
        """
        notes, now_s = self._of(nodeset), self._clock()
        known = notes.offers
        notes.offers = {
            uid: known[uid] if uid in known and known[uid][0] == offer else (offer, now_s)
            for uid, offer in changed.items()
        }
        left_s = {
            uid: since_s + offer_lasts_s(nodeset, offer) - now_s for uid, (offer, since_s) in notes.offers.items()
        }
        lasting = frozenset(uid for uid, seconds in left_s.items() if seconds <= 0)
        return lasting, min((seconds for seconds in left_s.values() if seconds > 0), default=None)

    def long_idle(self, nodeset: NodeSet, idle: Iterable[str]) -> tuple[frozenset[str], float | None]:
        """Return the pods (by uid) whose nodes have been idle for `growth.releaseAfterSeconds`, so that they may be
        released.

        `idle`: the pods on whose nodes nothing runs now. The second value says after how many seconds there may be more
        to release. A new leader counts from its start.
        """
        notes, now_s = self._of(nodeset), self._clock()
        notes.idle = {uid: notes.idle.get(uid, now_s) for uid in idle}
        lasts_s = nodeset.spec.growth.release_after_seconds or 0
        left_s = {uid: since_s + lasts_s - now_s for uid, since_s in notes.idle.items()}
        long = frozenset(uid for uid, seconds in left_s.items() if seconds <= 0)
        return long, min((seconds for seconds in left_s.values() if seconds > 0), default=None)

    # ---------------------------------------------------------------- claims

    @contextmanager
    def claim(self, actions: Iterable[NodeSetAction]) -> Iterator[list[CreatePod]]:
        """Yield the creations on nodes for which no other NodeSet is creating a pod; these nodes are held until the
        end.

        Enter it without an await after the world was collected: then two NodeSets never both see a node as free.
        """
        mine = [action for action in actions if isinstance(action, CreatePod) and action.node not in self._claims]
        nodes = {creation.node for creation in mine}
        self._claims |= nodes
        try:
            yield mine
        finally:
            self._claims -= nodes

    def _of(self, nodeset: NodeSet) -> _Notes:
        notes = self._notes.setdefault(nodeset.key, _Notes())
        if notes.spec != nodeset.spec:
            notes.spec, notes.hash = nodeset.spec, template_hash(nodeset)
        return notes
