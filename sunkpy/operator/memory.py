"""What the leading operator remembers of NodeSets from one pass to the next.

No job's safety depends on this memory, and a new leader starts without it. The new leader tries each template again
before it rolls one out, writes the disruption budgets again, and replaces failed pods after the shortest pause.
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
    """What is remembered of one NodeSet. `hash` is that of its current pod template; the other hashes say which
    template the apiserver last refused, accepted, or was asked about. `guarded_uid`: uid of the NodeSet whose
    disruption budget was last written or refused.

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
    """What the leader remembers of NodeSets: refusals, failures, budgets, changed offers of nodes, and the nodes for
    which a pod is being created.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._notes: dict[Key, _Notes] = {}
        self._claims: set[str] = set()

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a NodeSet that is gone. A later NodeSet of the same name is another one."""
        self._notes.pop(key, None)

    # ------------------------------------------------------------- templates

    def refusal(self, nodeset: NodeSet) -> str:
        """Return why the apiserver refused a pod of the current template; empty if it has refused none, or accepted one
        since.
        """
        notes = self._of(nodeset)
        return notes.refusal if notes.refused_hash == notes.hash else ""

    def note_refusal(self, nodeset: NodeSet, text: str) -> None:
        """Note why the apiserver refused a pod of the current template. An empty text means that it accepted one."""
        notes = self._of(nodeset)
        notes.refusal, notes.refused_hash = text, notes.hash
        notes.accepted_hash = "" if text else notes.hash

    def is_accepted(self, nodeset: NodeSet) -> bool:
        """True if the last pod that was created or tried was of the current template and was accepted."""
        notes = self._of(nodeset)
        return notes.accepted_hash == notes.hash

    def is_vetted(self, nodeset: NodeSet) -> bool:
        """True if the current template was tried in a dry run, and the apiserver has not refused a pod of it."""
        notes = self._of(nodeset)
        return notes.vetted_hash == notes.hash and not self.refusal(nodeset)

    def note_vetted(self, nodeset: NodeSet) -> None:
        """Note that the current template was tried in a dry run, whatever the apiserver answered."""
        notes = self._of(nodeset)
        notes.vetted_hash = notes.hash

    # ----------------------------------------------------------------- waves

    def room_to_create(self, nodeset: NodeSet) -> int:
        """Return how many pods may be created now: `WAVE` at once, and after that `CREATED_PER_S` a second. The answer
        is 0 until `_SMALLEST_WAVE` pods may be created together.
        """
        notes, now_s = self._of(nodeset), self._clock()
        notes.room = min(WAVE, notes.room + (now_s - notes.room_at_s) * CREATED_PER_S)
        notes.room_at_s = now_s
        return int(notes.room) if notes.room >= _SMALLEST_WAVE else 0

    def note_created(self, nodeset: NodeSet, count: int) -> None:
        """Note that this number of pods is being created, so that fewer may be created now."""
        self._of(nodeset).room -= count

    # --------------------------------------------------------------- budgets

    def is_guarded(self, nodeset: NodeSet) -> bool:
        """True if this NodeSet's disruption budget was written or refused lately. The budget of an earlier NodeSet of
        the same name does not count.
        """
        notes = self._of(nodeset)
        return notes.guarded_uid == nodeset.uid and self._clock() - notes.guarded_at_s < GUARD_LASTS_S

    def note_guarded(self, nodeset: NodeSet) -> None:
        """Note that the NodeSet's disruption budget was written, or that the apiserver refused it: it is not tried
        again soon.
        """
        notes = self._of(nodeset)
        notes.guarded_uid, notes.guarded_at_s = nodeset.uid, self._clock()

    # -------------------------------------------------------------- failures

    def failures(self, nodeset: NodeSet) -> Mapping[str, int]:
        """Return for each node how often in a row its slurmd pod has failed, in a copy that does not change later."""
        return dict(self._of(nodeset).failures)

    def note_failure(self, nodeset: NodeSet, pod: Pod) -> None:
        """Note that a slurmd pod has failed. The pause before the next pod on its node becomes twice as long."""
        failures = self._of(nodeset).failures
        failures[node_of(pod)] = failures.get(node_of(pod), 0) + 1

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """If the changed pod is a slurmd pod and Ready, forget the failures on its node: the next pause there is the
        shortest again.
        """
        key = nodeset_key(new) if new is not None else None
        if new is None or key is None or not new.is_condition_true("Ready"):
            return
        notes = self._notes.get(key)
        if notes is not None:
            notes.failures.pop(node_of(new), None)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """If a Node is gone, forget the failures of slurmd pods there."""
        if old is not None and new is None:
            for notes in self._notes.values():
                notes.failures.pop(old.name, None)

    # ---------------------------------------------------------------- offers

    def lasting_offers(self, nodeset: NodeSet, changed: Mapping[str, str]) -> tuple[frozenset[str], float | None]:
        """Return the pods (by uid) whose node has for long enough offered to Slurm something other than the pod was
        made for. `changed`: pod uid → what its node offers now, if that differs.

        The second value says after how many seconds there may be more of these pods; None if there are no others.
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
        released to autoscalers.

        `idle`: the pods on whose nodes nothing runs now. The second value says after how many seconds there may be more
        such pods; None if there are no others. A new leader counts from its start.
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
        """Reserve the nodes of new pods until the context ends. Yield the pod creations among `actions`, without those
        on a node that another NodeSet has reserved.

        Enter the context without an await after the decision's input was collected. Then two NodeSets never both see a
        node as free.
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
