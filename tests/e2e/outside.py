"""Machines that are no nodes of Kubernetes: a network namespace each, to whose address this machine routes."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from demo.stack import ROOT, Stack
from devcluster.cluster import Cluster
from devcluster.shell import run, succeeds

NODE: Final = "bare-1"
"""What the page calls the machine."""
START: Final = """\
hostname "$2"
for folder in dev sys; do mount --rbind "/$folder" "$1/$folder"; done
touch "$1/usr/bin/kubectl"
mount --bind "$(readlink -f "$3")" "$1/usr/bin/kubectl"
mount -t proc proc "$1/proc"
for folder in run var/spool; do mount -t tmpfs tmpfs "$1/$folder"; done
exec chroot "$1" bash -ec "$4"
"""


class Machine:
    """One of them. Its `address` is in no network of nodes, pods or Services."""

    def __init__(self, cluster: Cluster, folder: Path, number: int) -> None:
        self._layout, self._netns, self._log = cluster.layout, folder / "netns", folder / "log"
        self.address = str(self._layout.spare_network[-1 - number])
        self._link = f"{self._layout.bridge}nm{number}"  # goes with the cluster at the latest, as those of its nodes

    def __enter__(self) -> Machine:
        host = str(self._layout.host_ip)
        self._netns.touch()
        run(["unshare", f"--net={self._netns}", "true"])
        succeeds(["ip", "link", "del", self._link])
        run(["ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", str(self._netns)])
        run(["ip", "link", "set", self._link, "up"])
        run(["ip", "route", "replace", self.address, "dev", self._link])
        for words in (
            "link set lo up",
            f"address add {self.address}/32 dev eth0",
            "link set eth0 up",
            f"route add {host} dev eth0",
            f"route add default via {host}",
        ):
            run(["ip", *words.split()], netns=self._netns)
        return self

    def __exit__(self, *_: object) -> None:
        succeeds(["ip", "link", "del", self._link])
        run(["umount", str(self._netns)])

    @contextlib.contextmanager
    def running(self, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
        """A program with all that it starts, until the end."""
        own = ["nsenter", f"--net={self._netns}", "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        with self._log.open("ab") as log, subprocess.Popen([*own, *argv], stdout=log, stderr=log) as process:
            try:
                yield process
            finally:
                process.kill()

    def reaches(self, address: str, port: int) -> bool:
        """Somebody answers it there."""
        return succeeds(["timeout", "1", "bash", "-c", f"exec 3<> /dev/tcp/{address}/{port}"], netns=self._netns)

    def said(self) -> str:
        """The last words of what ran there."""
        return self._log.read_text(errors="replace")[-3000:]


def page(stack: Stack) -> tuple[str, str]:
    """Values and commands of docs/tasks/nodes-outside.md, for a release of that name."""
    text = (ROOT / "docs/tasks/nodes-outside.md").read_text()
    for of_the_page, own in (
        ("slurm-slurm", f"{stack.release}-slurm"),
        ("-n slurm ", f"-n {stack.namespace} "),
        ("instance: slurm,", f"instance: {stack.release},"),
        ("slurm-compute", f"{stack.release}-compute"),
    ):
        assert of_the_page in text
        text = text.replace(of_the_page, own)
    (values,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    commands = re.findall(r"^    (.*)$", text.rpartition("```")[2], re.MULTILINE)
    return values, "\n".join(commands)


def slurmd(stack: Stack, root: Path, address: str) -> list[str]:
    """What makes a machine with the files of `root` a Slurm node, as the page says it."""
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {NODE}\n")
    (root / "etc/kubeconfig").write_bytes(stack.kubeconfig.read_bytes())
    assert stack.bin_dir is not None
    env = f"export PATH=/usr/sbin:/usr/bin KUBECONFIG=/etc/kubeconfig ADDRESS={address}"
    foreground = f"{env}\n{page(stack)[1]} -D"
    return ["bash", "-ec", START, "-", str(root), NODE, str(stack.bin_dir / "kubectl"), foreground]


def balance(stack: Stack, cluster: Cluster) -> str:
    """Be the load balancer of the page's Service: its address, from which all goes to the node that has its pod."""
    address, of = str(cluster.layout.spare_network[-10]), ("-n", stack.namespace)
    node = stack.kubectl("get", "pod", f"{stack.release}-slurmctld-0", *of, "-o", "jsonpath={.status.hostIP}")
    run(["ip", "route", "replace", address, "via", node, "dev", cluster.layout.bridge])
    status = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}})
    stack.kubectl("patch", "service/slurm-nodes", *of, "--subresource=status", "--type=merge", f"--patch={status}")
    return address
