"""A cluster with both charts on it, asked and changed from outside: kubectl, helm and Slurm's own tools.

Slurm is only ever touched the way a person touches it: `sbatch` as a user of the login pod, `scontrol` as the
administrator beside slurmctld. `demo.bring_up` makes a `Stack`.
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
"""Who everybody is in the login pod."""
JOBS: Final = "demo"
"""Name of all jobs that the demo submits."""


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
        """Whether sunkpy's device plugin hands out GPUs, so that pods share nodes; elsewhere they get whole nodes."""
        return self.bin_dir is not None

    def with_images(self, images: Mapping[str, str]) -> Stack:
        """The same cluster, to be run from other images."""
        return Stack(suite=self.suite, kubeconfig=self.kubeconfig, bin_dir=self.bin_dir, images=images)

    # ------------------------------------------------------------ Kubernetes

    def helm(self, *args: str, stdin: str = "", timeout_s: float = 360) -> str:
        """Standard output of helm; with `--values=-` it reads values from `stdin`.

        Raises:
            CommandFailed: with what helm said.
        """
        return shell.run(["helm", *args], stdin=stdin, env=self.kubectl.env, timeout_s=timeout_s)

    def events(self, namespace: str, about: str, *, uid: str = "") -> Sequence[str]:
        """`<reason>: <message>` of each Event about an object, oldest first; with `uid` not of its namesakes."""
        template = '{range .items[*]}{.reason}: {.message}{"\\n"}{end}'
        selector = f"--field-selector=involvedObject.name={about}" + (f",involvedObject.uid={uid}" if uid else "")
        return self.kubectl("get", "events", "-n", namespace, selector, "-o", f"jsonpath={template}").splitlines()

    # ------------------------------------------------------------ slurmd pods

    def nodes(self) -> Sequence[Node]:
        """Kubernetes nodes that have a slurmd pod of this Slurm cluster."""
        return self.kubectl.list(Node, "nodes", "-l", f"{names.LABEL_CLUSTER}={self.cluster}")

    def slurmd_pods(self) -> Sequence[Pod]:
        """The slurmd pods, by name."""
        return self.kubectl.list(Pod, "pods", "-n", self.namespace, "-l", f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}")

    def nodeset_status(self) -> NodeSetStatus:
        """What the operator says about the NodeSet."""
        return self.kubectl.get(NodeSet, "nodeset", self.nodeset, "-n", self.namespace).status

    # ------------------------------------------------------------------ Slurm

    def login(self, script: str, *, stdin: str = "", timeout_s: float = 60) -> str:
        """Run a shell command in the login pod, as the user that everybody is there, in the home directory."""
        exec_ = ("exec", "-i", "-n", self.namespace, f"{self.release}-login-0", "-c", "login", "--")
        return self.kubectl(*exec_, "bash", "-l", "-c", script, stdin=stdin, timeout_s=timeout_s)

    def admin(self, *args: str, timeout_s: float = 60) -> str:
        """Run a program as Slurm's administrator, beside slurmctld."""
        pod = f"{self.release}-slurmctld-0"
        return self.kubectl("exec", "-n", self.namespace, pod, "-c", "slurmctld", "--", *args, timeout_s=timeout_s)

    def sbatch(self, *args: str, script: str) -> int:
        """Submit a batch script from the login pod; the job's id."""
        options = " ".join(shlex.quote(arg) for arg in args)
        out = self.login(f"sbatch --parsable {options}", stdin=f"#!/bin/bash\n{script}\n")
        job_id = out.split(";")[0].strip()
        if not job_id.isdigit():  # kubectl says nothing of an exec whose kubelet died
            raise CommandFailed(("sbatch", *args), "told no job id", code=0, output=out)
        return int(job_id)

    def squeue(self, *args: str) -> str:
        """What squeue prints to the administrator, without header."""
        return self.admin("squeue", "--noheader", *args)

    def sinfo(self, *args: str) -> str:
        """What sinfo prints to the administrator, without header."""
        return self.admin("sinfo", "--noheader", *args)

    def scontrol(self, *args: str) -> str:
        """What scontrol prints to the administrator."""
        return self.admin("scontrol", *args)

    def jobs(self) -> Mapping[int, Mapping[str, str]]:
        """All jobs that slurmctld remembers, by id, as `scontrol show job` prints them."""
        lines = self.scontrol("show", "job", "--details", "--oneliner").splitlines()
        parsed = (slurm_text.parse_oneliner(line) for line in lines if line.startswith("JobId="))
        return {int(job["JobId"].split()[0]): job for job in parsed}

    def job(self, job_id: int) -> Mapping[str, str]:
        """One job; of an array, its first line."""
        return slurm_text.parse_oneliner(
            self.scontrol("show", "job", "--details", "--oneliner", str(job_id)).splitlines()[0]
        )

    def slurm_nodes(self) -> Mapping[str, Mapping[str, str]]:
        """All Slurm nodes by name, as `scontrol show node` prints them."""
        lines = self.scontrol("show", "node", "--details", "--oneliner").splitlines()
        parsed = (slurm_text.parse_oneliner(line) for line in lines if line.startswith("NodeName="))
        return {node["NodeName"]: node for node in parsed}

    def wait_for_job(self, job_id: int, *states: str, timeout_s: float = 60) -> Mapping[str, str]:
        """The job once it is in one of the states (`RUNNING`, `COMPLETED`, …).

        Raises:
            NeverSo: it is not, after `timeout_s`; says its state and Slurm's reason.
        """

        def reached() -> Mapping[str, str]:
            job = self.job(job_id)
            if job["JobState"] not in states:
                raise NotYet(f"{job['JobState']}, reason {job.get('Reason')}, nodes {job.get('NodeList')}")
            return job

        return wait(reached, timeout_s=timeout_s, what=f"job {job_id} is {' or '.join(states)}")

    def when_slurm_node(self, node: str, pattern: str, *, timeout_s: float = 30) -> command.Remote:
        """Start a watch beside slurmctld that ends when the one-line record of a node matches an extended regex.

        Call it before the change whose effect it times: the answer is the time of the first match, to 20 ms.
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
        """Clock beside slurmctld minus the clock here, to about half the time of one kubectl exec."""
        before_s = time.time()
        there_s = float(self.admin("date", "+%s.%N"))
        return 0.0 if before_s <= there_s <= time.time() else there_s - (before_s + time.time()) / 2

    def cancel_jobs(self, ids: Sequence[int]) -> None:
        """Cancel jobs; those that have ended already are none of our concern."""
        if ids:
            self.admin("scancel", "--quiet", *(str(id_) for id_ in ids))
