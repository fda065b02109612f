"""The Slurm jobs that manifests should become, and what a gang asks for in the same measure."""

from __future__ import annotations

from sunkpy.core.model import matching, quantity
from sunkpy.core.placement.needs import MINIMUM_MEMORY_MIB, whole_cpus
from tests.unit.core.gang.families.workload import wanted_jobs


def wanted(path):
    """(pods, cpus, MiB, GPUs) of each job that a manifest should become, as often as it should."""
    return sorted(wanted_jobs(path))


def asked(gang):
    """(pods, cpus, MiB, GPUs) of all seats of a gang, each pod rounded up alone."""
    amounts = [one for role in gang.roles for one in [_of(role)] * role.seats]
    return tuple(sum(column) for column in zip(*amounts, strict=True))


def _of(role):
    spec = role.shape or role.members[0].pod.spec
    needs = matching.pod_requests(spec)
    memory = max(MINIMUM_MEMORY_MIB, quantity.mib_up(needs.get("memory", 0)))
    return (1, whole_cpus(needs), memory, needs.get("nvidia.com/gpu", 0))


def template_of(template):
    """A pod template as its pods show it: quantities as text, requests that are missing made of the limits."""
    return _defaulted(template)


def _defaulted(value):
    if isinstance(value, list):
        return [_defaulted(each) for each in value]
    if not isinstance(value, dict):
        return value
    value = {key: _defaulted(each) for key, each in value.items()}
    if isinstance(value.get("resources"), dict):
        limits = {name: str(amount) for name, amount in (value["resources"].get("limits") or {}).items()}
        requests = {name: str(amount) for name, amount in (value["resources"].get("requests") or {}).items()}
        value["resources"] = {"limits": limits, "requests": limits | requests}
    return value


def problems(gang):
    """What keeps a gang out of Slurm, as text."""
    return [str(problem) for problem in gang.problems if problem.fatal]
