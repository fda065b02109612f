"""What a cluster can leave behind on a machine, as a set of lines to compare before and after."""

import json
from pathlib import Path

from devcluster.layout import Layout
from devcluster.network import parse_owner
from devcluster.process import marked_pids
from devcluster.shell import run

NODE = Layout(root=Path("/"), name="any", slot=0).node(1)


def traces(home: Path, bridge: str) -> set[str]:
    """Lines about the cluster in ``home``, links named after ``bridge``; others may come and go meanwhile, and one of
    them may have its slot by now.
    """
    processes = {f"process {pid}" for pid in marked_pids(home)}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{home}/".encode() in entry.read_bytes() and "pytest" not in entry.read_text(errors="replace"):
                processes.add(f"process {entry.parent.name}")
        except (FileNotFoundError, ProcessLookupError):
            continue
    mounts = {f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {home}" in line}
    links = {f"link {link['ifname']}" for link in json.loads(run(["ip", "-j", "link"])) if bridge in link["ifname"]}
    routes = {f"route {line}" for line in run(["ip", "route", "show", "table", "all"]).splitlines() if bridge in line}
    slot = f"sunkpy-devcluster-{bridge.removeprefix('skd')}"
    rules = {f"rule {line}" for line in run(["iptables-save"]).splitlines() if slot in line.split()}
    cgroups = {
        f"cgroup {path}"
        for path in [*Path("/sys/fs/cgroup").glob("*/*"), *Path("/sys/fs/cgroup").glob("*")]
        if path.name == slot
    }
    folder = {f"folder {home}"} if home.exists() else set()
    of_slot = links | routes | rules | cgroups
    # Asked for last: who takes the slot while the others are read, has it now.
    is_its_own = parse_owner(run(["ip", "-j", "link"]), bridge) in (None, str(home))
    return processes | mounts | folder | (of_slot if is_its_own else set())


def shared_traces() -> set[str]:
    """Traces that do not say whose they are: named network namespaces, and what lies where nodes have their own."""
    named = {f"netns {path}" for path in Path("/run/netns").glob("cni-*")}
    return named | {f"file {path}" for folder in NODE.own for path in folder.glob("*")}
