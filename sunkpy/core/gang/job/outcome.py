"""How a gang ends: whether its job has an exit code to tell, and which."""

from __future__ import annotations

from sunkpy.core.gang.gang import ANY_SEAT, Gang, Role
from sunkpy.core.model.objects import Pod


def has_exit_code(gang: Gang) -> bool:
    """Its pods can end by themselves. Those of a service (restartPolicy Always) run until somebody takes them away."""
    there = [pod.spec for pod in gang.members]
    declared = [role.shape for role in gang.roles if role.shape is not None]
    return any(spec.restart_policy != "Always" for spec in (*there, *declared))


def has_succeeded(gang: Gang) -> bool:
    """The pods that decide succeeded: those of the roles that do, or all when none of these is there."""
    there = [role for role in gang.roles if role.members]
    deciding = [role for role in there if role.decides] or there
    return all(pod.status.phase == "Succeeded" for role in deciding for pod in _last_tries(role))


def _last_tries(role: Role) -> list[Pod]:
    """The youngest pod of each seat; where seats are not told apart, as many of the youngest as there are seats."""
    oldest_first = sorted(role.members, key=lambda m: (m.pod.metadata.creation_timestamp, m.pod.name))
    numbered = {member.index: member.pod for member in oldest_first if member.index != ANY_SEAT}
    others = [member.pod for member in oldest_first if member.index == ANY_SEAT]
    return [*numbered.values(), *others[-role.seats :]]
