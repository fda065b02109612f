"""What a process of sunkpy has used so far, from its own metrics."""

from __future__ import annotations

from collections import Counter

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families

_MIB = 2**20


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has used: requests to slurmrestd by endpoint, bytes of their bodies, processor seconds, memory."""

    calls: Counter[str]
    size: float
    cpu_s: float
    memory_mib: float

    def since(self, before: Spent) -> Spent:
        """Return what the process has used since `before`; its memory is the present one."""
        return Spent(
            calls=self.calls - before.calls,
            size=self.size - before.size,
            cpu_s=self.cpu_s - before.cpu_s,
            memory_mib=self.memory_mib,
        )


async def spent(port: int) -> Spent:
    """Return what the process that serves its metrics on this port has used."""
    url = f"http://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return read(await answer.text())


def read(text: str) -> Spent:
    calls: Counter[str] = Counter()
    size = cpu_s = memory = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            match sample.name:
                case "sunkpy_slurm_request_seconds_count":
                    calls[sample.labels["endpoint"]] += int(sample.value)
                case "sunkpy_slurm_bytes_total":
                    size += sample.value
                case "process_cpu_seconds_total":
                    cpu_s = sample.value
                case "process_resident_memory_bytes":
                    memory = sample.value
    return Spent(calls=calls, size=size, cpu_s=cpu_s, memory_mib=memory / _MIB)
