"""Pods and sbatch jobs that each take a whole node, so two of them on one node are always an overlap.

Every process of them has `CHAOS_POD` or `CHAOS_JOB` in its environment. Every batch script writes a line when it
starts, gets a signal to end, and ends.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Final

from demo.stack import Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import NeverSo, persist
from sunkpy.core import names
from tests.bench.chaos.record import Accepted, Line
from tests.bench.chaos.schedule import Door, Manner, PlannedJob
from tests.e2e import workloads
from tests.e2e.handover import whole_node_cpu
from tests.e2e.workloads import NAMESPACE as WORKLOADS

LABEL: Final = "sunkpy-chaos"
FOLDER: Final = "chaos"
PATIENCE_S = 60.0
_TRAPS = {
    Manner.PROMPT: "trap 'said term; exit 0' TERM",
    Manner.TIDY: "trap 'said term; sleep 1.5; exit 0' TERM",
    Manner.STUBBORN: "trap '' TERM",
    Manner.DAEMON: "trap 'said term; exit 0' TERM; setsid sleep 20 &",
}


class Load:
    """The load of one run. `accepted`: what Slurm or Kubernetes took, or may have taken. `refused`: what they refused.

    `away_s`: for how many seconds a fault may keep the apiserver away.
    """

    def __init__(self, stack: Stack, *, seed: int, away_s: float = 0.0) -> None:
        self.accepted: list[Accepted] = []
        self.refused: list[str] = []
        self._stack = stack
        self._seed = seed
        self._patience_s = PATIENCE_S + away_s
        self._cpu = whole_node_cpu(stack)

    def prepare(self) -> None:
        self._stack.login(f"rm -rf {FOLDER}; mkdir {FOLDER}")

    async def run(self, planned: PlannedJob, *, started_s: float) -> None:
        """Wait for the job's time, submit it, and delete it if that is planned."""
        await asyncio.sleep(max(started_s + planned.at_s - time.time(), 0.0))
        name = f"chaos-{self._seed}-{planned.number}"
        submit = self._sbatch if planned.door is Door.SBATCH else self._create
        await asyncio.to_thread(submit, planned, name)
        if planned.is_deleted:
            await asyncio.sleep(planned.lasts_s)
            await asyncio.to_thread(self.delete_pods, name)

    def _sbatch(self, planned: PlannedJob, name: str) -> None:
        asked_s, is_answered = time.time(), True
        options = ("-p", planned.partition, "-J", name, "-N1", "--exclusive", "-o", "/dev/null")
        try:
            self._stack.sbatch(*options, f"--export=ALL,CHAOS_JOB={name}", script=batch_script(planned))
        except CommandFailed as error:
            # Slurm may have accepted the job all the same; then it appears under its name.
            self.refused.append(f"{name}: {error}")
            is_answered = False
        self.accepted.append(Accepted(planned=planned, name=name, asked_s=asked_s, is_answered=is_answered))

    def _create(self, planned: PlannedJob, name: str) -> None:
        asked_s = time.time()
        body = pod_body(planned, name, stack=self._stack, cpu=self._cpu)

        try:
            apply = partial(self._stack.kubectl.apply, body)
            persist(apply, timeout_s=self._patience_s, what=f"pod {name} created")
        except NeverSo as error:
            self.refused.append(f"{name}: {error}")
            return
        self.accepted.append(Accepted(planned=planned, name=name, asked_s=asked_s))

    def delete_pods(self, *which: str) -> None:
        """Delete pods of the load by name, or all of them."""
        selection = which or ("-l", f"app={LABEL}")
        how = ("delete", "pod", "-n", WORKLOADS, *selection, "--ignore-not-found", "--wait=false")
        delete = partial(self._stack.kubectl, *how)
        persist(delete, timeout_s=self._patience_s, what="pods of the load deleted")

    def lines(self) -> dict[str, tuple[Line, ...]]:
        read = partial(self._stack.login, f"cd {FOLDER} && grep -H '' * || true")
        return read_lines(persist(read, timeout_s=self._patience_s, what="what the scripts wrote"))


def batch_script(planned: PlannedJob) -> str:
    """Return a script that lasts as planned and writes lines to a file of its own. By `wait`, its trap acts at once."""
    return "\n".join((
        f'said() {{ echo "$1 $(date +%s.%N) $SLURMD_NODENAME ${{SLURM_RESTART_COUNT:-0}}" >> ~/{FOLDER}/$CHAOS_JOB; }}',
        "said start",
        _TRAPS[planned.manner],
        f"sleep {planned.lasts_s} & wait $!",
        "said end",
    ))  # fmt: skip


def read_lines(text: str) -> dict[str, tuple[Line, ...]]:
    """Parse the output of `grep -H` over the files of the scripts. Lines that a kill has cut short are left out."""
    found: dict[str, list[Line]] = {}
    for line in text.splitlines():
        name, _, said = line.partition(":")
        words = said.split()
        if len(words) == 4 and words[3].isdigit():
            found.setdefault(name, []).append(
                Line(what=words[0], at_s=float(words[1]), node=words[2], run=int(words[3]))
            )
    return {name: tuple(lines) for name, lines in found.items()}


def pod_body(planned: PlannedJob, name: str, *, stack: Stack, cpu: str) -> dict[str, object]:
    """Return a pod that lasts as planned, unless it gets SIGTERM and obeys; a service if it is to be deleted."""
    script = f"said() {{ :; }}; {_TRAPS[planned.manner]}; sleep {planned.lasts_s} & wait $!"
    command = ["env", f"CHAOS_POD={name}", "bash", "-c", script]
    image, scheduler = stack.images["sunkpy"], stack.scheduler_name
    body = workloads.pod(
        name, image=image, scheduler=scheduler, cpu=cpu, command=command, grace_s=planned.grace_s,
        restart_policy="Always" if planned.is_deleted else "Never",
    )  # fmt: skip
    annotations = {f"{names.PREFIX}partition": planned.partition}
    metadata = {"name": name, "namespace": WORKLOADS, "labels": {"app": LABEL}, "annotations": annotations}
    return body | {"metadata": metadata}
