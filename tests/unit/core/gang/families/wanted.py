"""The Slurm jobs that manifests should become: `expected.yaml`, and the same read off gangs."""

from __future__ import annotations

from sunkpy.core.model import matching, quantity
from sunkpy.core.placement.needs import MINIMUM_MEMORY_MIB, whole_cpus
from tests.unit.core.gang.families.workload import wanted_jobs


def wanted(path):
    """(pods, cpus, MiB) of each job that a manifest should become, in the order of the file."""
    return [job[:3] for job in wanted_jobs(path)]


def size(gang):
    """(pods, cpus, MiB) of the job of a gang; seats without a pod count with the shape of their role."""
    specs = []
    for role in gang.roles:
        living = [member.pod.spec for member in role.members if not member.pod.is_finished]
        specs += [*living, *([role.shape] * (role.seats - len(living)))]
    needs = [matching.pod_requests(spec) for spec in specs]
    mib = sum(max(MINIMUM_MEMORY_MIB, quantity.mib_up(each.get("memory", 0))) for each in needs)
    return (len(specs), sum(whole_cpus(each) for each in needs), mib)


def left_out(pods, gang):
    """Pods that got no place: each becomes a job of its own."""
    return [pod for pod in pods if pod.uid not in {member.uid for member in gang.members}]


def pod_size(pod):
    """(pods, cpus, MiB) of the job of a pod that is alone."""
    needs = matching.pod_requests(pod.spec)
    return (1, whole_cpus(needs), max(MINIMUM_MEMORY_MIB, quantity.mib_up(needs.get("memory", 0))))
