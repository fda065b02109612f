"""A Slurm cluster on Kubernetes, as a user or administrator works with it: by kubectl, helm and Slurm's own commands.

User commands such as `sbatch` run in the login pod, and `scontrol` runs as the administrator beside slurmctld.
`demo.bring_up` makes a `Stack`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from demo import command, slurm_text
from devcluster import shell
from devcluster.kubectl import Kubectl
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus

ROOT: Final = Path(__file__).resolve().parent.parent
SUITES: Final = ("trixie", "sid")
OPERATOR_NAMESPACE: Final = "sunkpy-system"
USER: Final = "user1"
"""The user of commands in the login pod."""
JOBS: Final = "demo"
"""The name of all jobs that the demo submits."""


class Stack:
    """One Slurm cluster on one Kubernetes cluster. Make it with `demo.bring_up.bring_up`."""

    def __init__(self, *, suite: str, kubeconfig: Path, bin_dir: Path | None, images: Mapping[str, str]) -> None:
        if suite not in SUITES:
            raise ValueError(f"suite {suite!r}: choose one of {', '.join(SUITES)}")
        self.suite = suite
        self.release = "slurm" if suite == "trixie" else f"slurm-{suite}"
        self.namespace = self.release
        self.scheduler_name = self.release
        self.cluster = self.release
        self.nodeset = "compute"
        self.kubeconfig = kubeconfig
        self.bin_dir = bin_dir
        self.images = dict(images)
        self.kubectl = Kubectl(kubeconfig, bin_dir)

    @property
    def has_device_plugin(self) -> bool:
        """True if sunkpy's device plugin hands out GPUs, so that pods share nodes; else pods get whole nodes."""
        return self.bin_dir is not None

    def with_images(self, images: Mapping[str, str]) -> Stack:
        """Return a stack for the same cluster with other images."""
        return Stack(suite=self.suite, kubeconfig=self.kubeconfig, bin_dir=self.bin_dir, images=images)

    # ------------------------------------------------------------ Kubernetes

    def helm(self, *args: str, stdin: str = "", timeout_s: float = 360) -> str:
        """Run helm and return its standard output; with `--values=-` it reads values from `stdin`.

        Raises:
            CommandFailed: helm failed; the text has its output.
        """
        return shell.run(["helm", *args], stdin=stdin, env=self.kubectl.env, timeout_s=timeout_s)

    def events(self, namespace: str, about: str, *, uid: str = "") -> Sequence[str]:
        """Return `<reason>: <message>` of each Event about an object, oldest first; `uid` excludes others of
        its name.
        """
        template = '{range .items[*]}{.reason}: {.message}{"\\n"}{end}'
        selector = f"--field-selector=involvedObject.name={about}" + (f",involvedObject.uid={uid}" if uid else "")
        return self.kubectl("get", "events", "-n", namespace, selector, "-o", f"jsonpath={template}").splitlines()

    # ------------------------------------------------------------ slurmd pods

    def nodes(self) -> Sequence[Node]:
        """Return the Kubernetes nodes that have a slurmd pod of this Slurm cluster."""
        return self.kubectl.list(Node, "nodes", "-l", f"{names.LABEL_CLUSTER}={self.cluster}")

    def slurmd_pods(self) -> Sequence[Pod]:
        """Return the slurmd pods of this Slurm cluster."""
        return self.kubectl.list(Pod, "pods", "-n", self.namespace, "-l", f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}")

    def nodeset_status(self) -> NodeSetStatus:
        """Return the status of the demo's NodeSet, which the operator writes."""
        return self.kubectl.get(NodeSet, "nodeset", self.nodeset, "-n", self.namespace).status

    # ------------------------------------------------------------------ Slurm

    def login(self, script: str, *, stdin: str = "", timeout_s: float = 60) -> str:
        """Run a shell command in the login pod, as `USER` in the home directory, and return its output."""
        exec_ = ("exec", "-i", "-n", self.namespace, f"{self.release}-login-0", "-c", "login", "--")
        return self.kubectl(*exec_, "bash", "-l", "-c", script, stdin=stdin, timeout_s=timeout_s)

    def admin(self, *args: str, timeout_s: float = 60) -> str:
        """Run a program as Slurm's administrator in slurmctld's pod, and return its output."""
        pod = f"{self.release}-slurmctld-0"
        return self.kubectl("exec", "-n", self.namespace, pod, "-c", "slurmctld", "--", *args, timeout_s=timeout_s)

    def sbatch(self, *args: str, script: str) -> int:
        """Submit a batch script from the login pod, and return the job's ID."""
        options = " ".join(shlex.quote(arg) for arg in args)
        out = self.login(f"sbatch --parsable {options}", stdin=f"#!/bin/bash\n{script}\n")
        job_id = out.split(";")[0].strip()
        if not job_id.isdigit():  # kubectl reports no error if the kubelet dies during an exec
            raise CommandFailed(("sbatch", *args), "told no job id", code=0, output=out)
        return int(job_id)

    def squeue(self, *args: str) -> str:
        """Run squeue as administrator, and return its output without header."""
        return self.admin("squeue", "--noheader", *args)

    def sinfo(self, *args: str) -> str:
        """Run sinfo as administrator, and return its output without header."""
        return self.admin("sinfo", "--noheader", *args)

    def scontrol(self, *args: str) -> str:
        """Run scontrol as administrator, and return its output."""
        return self.admin("scontrol", *args)

    def jobs(self) -> Mapping[int, Mapping[str, str]]:
        """Return all jobs that slurmctld remembers, by ID, as `scontrol show job` prints them."""
        lines = self.scontrol("show", "job", "--details", "--oneliner").splitlines()
        parsed = (slurm_text.parse_oneliner(line) for line in lines if line.startswith("JobId="))
        return {int(job["JobId"].split()[0]): job for job in parsed}

    def job(self, job_id: int) -> Mapping[str, str]:
        """Return one job as `scontrol show job` prints it; of an array, its first task."""
        return slurm_text.parse_oneliner(
            self.scontrol("show", "job", "--details", "--oneliner", str(job_id)).splitlines()[0]
        )

    def slurm_nodes(self) -> Mapping[str, Mapping[str, str]]:
        """Return all Slurm nodes by name, as `scontrol show node` prints them."""
        lines = self.scontrol("show", "node", "--details", "--oneliner").splitlines()
        parsed = (slurm_text.parse_oneliner(line) for line in lines if line.startswith("NodeName="))
        return {node["NodeName"]: node for node in parsed}

    def wait_for_job(self, job_id: int, *states: str, timeout_s: float = 60) -> Mapping[str, str]:
        """Wait until a job is in one of the states (`RUNNING`, `COMPLETED`, …), and return it.

        Raises:
            NeverSo: after `timeout_s` it is not; the text has its state and Slurm's reason.
        """

        def reached() -> Mapping[str, str]:
            job = self.job(job_id)
            if job["JobState"] not in states:
                raise NotYet(f"{job['JobState']}, reason {job.get('Reason')}, nodes {job.get('NodeList')}")
            return job

        return wait(reached, timeout_s=timeout_s, what=f"job {job_id} is {' or '.join(states)}")

    def when_slurm_node(self, node: str, pattern: str, *, timeout_s: float = 30) -> command.Remote:
        """Start a loop in slurmctld's pod that ends when the one-line record of a Slurm node matches an extended regex.

        Call it before the change whose effect it measures. It prints the time of the first match, to 20 ms.
        """
        loop = (
            f"until scontrol show node --oneliner {shlex.quote(node)} 2>&1 | grep -Eq {shlex.quote(pattern)}; "
            f"do [ $SECONDS -lt {timeout_s:.0f} ] || exit 3; sleep 0.02; done; date +%s.%N"
        )
        pod = f"{self.release}-slurmctld-0"
        exec_ = ("kubectl", "exec", "-n", self.namespace, pod, "-c", "slurmctld", "--")
        return command.Remote(
            *exec_, "bash", "-c", f"echo ready; {loop}", env=self.kubectl.env, timeout_s=timeout_s + 15
        )

    def clock_skew_s(self) -> float:
        """Return the clock in slurmctld's pod minus the local clock, to about half the time of a kubectl exec."""
        before_s = time.time()
        there_s = float(self.admin("date", "+%s.%N"))
        return 0.0 if before_s <= there_s <= time.time() else there_s - (before_s + time.time()) / 2

    def cancel_jobs(self, ids: Sequence[int]) -> None:
        """Cancel jobs; jobs that have already ended cause no error."""
        if ids:
            self.admin("scancel", "--quiet", *(str(id_) for id_ in ids))
