"""A site: the values of an administrator, what the chart makes of them, and real daemons that have exactly that.

slurm.conf, the hooks, the script of slurmctld, people and accounts are the chart's; only addresses are others. Each
node is started as its pod is, by start-slurmd, with folders and a host name of its own where a pod has them; with
compute.ssh its sshd is started as there, too, on a port of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml
from prometheus_client import CollectorRegistry

from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.metrics import AccountsMetrics
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.install.keys import KINDS
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.daemons import KEEP_SLURMCTLD, Machines, RealAccounting, RealSlurm
from tests.integration.slurm.spank import build_plugin
from tests.polling import until
from tests.ports import free_ports
from tests.unit.charts.rendering import of_kind, render

VALUES: Final = yaml.safe_load("""
clusterName: it
nodeSets: {compute: {}, gpu: {gpu: {resource: nvidia.com/gpu, type: h100}}}
partitions:
  low: {default: true, priorityTier: 1, defaultTime: "10:00", maxTime: "1-0", nodeSets: [compute]}
  high: {priorityTier: 10, nodeSets: [compute]}
  gpu: {nodeSets: [gpu]}
  closed: {state: DOWN}
slurmConfig:
  cgroup: disabled  # nodes offer more cpus than this machine has
  conf:
    PriorityWeightFairshare: 10000
    PriorityWeightAge: 1000
    PriorityWeightQOS: 1000000
    KillWait: 3
    Licenses: "matlab:2"
  files: {plugstack.conf: "required /usr/local/lib/spank_site.so of-the-site"}
jobContainers: {cache: /var/cache/images}
users:
  people: {ann: {uid: 2001}, bob: {uid: 2002}, eve: {uid: 2003}}
accounting: {tres: [gres/gpu, license/matlab]}
accounts:
  wanted:
    qos:
      urgent: {priority: 100, preempts: [normal], preemptMode: CANCEL}
      small: {perUser: {jobs: 1, tres: {cpu: 2}}}
      strict: {flags: [DenyOnLimit], perUser: {tres: {cpu: 1}}}
    accounts:
      chem: {shares: 10, qos: [normal, urgent, small, strict]}
      phys: {shares: 10, qos: [normal]}
    users:
      ann: {accounts: {chem: {}}}
      bob: {accounts: {phys: {}}}
    pods: {account: chem}
scheduler:
  access: [{namespaces: [chem], users: [ann, bob]}]
""")
PEOPLE: Final = {name: person["uid"] for name, person in VALUES["users"]["people"].items()}
POD: Final = """\
pod() {
  mount -t proc proc /proc
  mount -t tmpfs tmpfs /config && cp /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/slurm/gres.conf /etc/slurm/*.sh \
    /etc/slurm/*.lua /config
  for folder in /etc/slurm /run /tmp; do mount -t tmpfs -o mode=755,uid=401,gid=401 tmpfs $folder; done
  port=$(sed -n s/^AccountingStoragePort=//p /config/slurm.conf)
  exec setpriv --reuid slurm --regid slurm --clear-groups env SUNKPY_ACCOUNTING=localhost:$port start-slurmctld
}
export -f pod
install -d -o slurm -g slurm /run/slurm
keep as slurm /usr/sbin/sackd -D >> /var/log/sackd.log 2>&1 &
keep unshare --mount --propagation unchanged --pid --fork --kill-child bash -c pod >> /var/log/slurmctld.log 2>&1 &
"""
"""slurmctld as process 1 of its container: what start-slurmctld starts beside it ends with it. People have a sackd."""
STATE: Final = "var/lib/slurm/state"
GPU_SHARES: Final = f"{STATE}/gpu-shares"
SHARE_GPUS: Final = f"keep as slurm share-gpus /{GPU_SHARES} 1 >> /var/log/share-gpus.log 2>&1 &\n"
WEIGH_USERS: Final = f"keep as slurm weigh-users /{STATE} /{STATE}/heavy-users 1 >> /var/log/weigh-users.log 2>&1 &\n"
"""As start-slurmctld does both."""
KEEP_POD: Final = """\
keep_pod() { while :; do set -m; "$@" & set +m; wait $!; kill -KILL -- -$! 2> /dev/null; sleep 0.2; done; }
"""
"""As `keep`, but what start-slurmd starts beside slurmd ends with it, as in a container."""
_PRIVATE: Final = ("/tmp", "/run", "/etc/slurm", "/etc/sunkpy", "/var/lib/sunkpy", "/var/spool/slurmd")


class Node(NamedTuple):
    """One that start-slurmd starts."""

    name: str
    cpus: int = 16
    features: str = "compute"
    gres: str = ""


NODES: Final = (Node("c1"), Node("c2"), Node("c3"), Node("g1", features="gpu,h100", gres="gpu:h100:2"))


def slurm_conf(values: Mapping[str, object]) -> str:
    """What the chart makes of values."""
    return str(of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"])


class Site:
    """The daemons of a site. `shell` runs a command as somebody who has logged in."""

    def __init__(
        self,
        folder: Path,
        *,
        values: Mapping[str, object] = VALUES,
        nodes: tuple[Node, ...] = NODES,
        slurmctld: str = KEEP_SLURMCTLD,
    ) -> None:
        suite = os.environ.get("SLURM_SUITE", "trixie")
        maps = {name: each.get("data") or {} for name, each in of_kind(render("slurm", values), "ConfigMap").items()}
        self._accounts = maps["demo-accounts"]["config.yaml"]
        self.accounting = RealAccounting(folder, suite)
        config = dict(maps["demo-slurm-config"])
        build_plugin(self.accounting.root, "usr/local/lib/spank_site.so")
        for name, text in maps["demo-people"].items():
            (self.accounting.root / "var/lib/extrausers" / name).write_text(text)
        for name, uid in PEOPLE.items():
            home = self.accounting.root / "home" / name
            home.mkdir()
            os.chown(home, uid, uid)
        self.ssh_ports = dict(zip((node.name for node in nodes), free_ports(len(nodes)), strict=True))
        has_ssh = "demo-compute-sshd" in maps
        if has_ssh:
            self._bring_sshd(maps)
        (slurmd,) = {_env_of(pod, "SUNKPY_PLUGSTACK") for pod in of_kind(render("slurm", values), "NodeSet").values()}
        self.replace_pods(values)
        start = f"export SUNKPY_PLUGSTACK={shlex.quote(slurmd)}\n"
        start += _start(nodes, "hold-namespaces run-services start-slurmd" if has_ssh else "start-slurmd")
        machines = Machines(chart=config.pop("slurm.conf"), start=start, files=config, slurmctld=slurmctld)
        self.slurm = RealSlurm(folder, suite, self.accounting, machines=machines)
        self._nodes = nodes

    def _bring_sshd(self, maps: Mapping[str, Mapping[str, str]]) -> None:
        """What a slurmd pod has mounted for its sshd: of each node in a folder of its own."""
        host_key = KINDS["ssh_host_ed25519_key"]()
        for name, port in self.ssh_ports.items():
            own = self.accounting.root / "site" / name
            conf = dict(maps["demo-compute-sshd"])
            conf["sshd_config"] = re.sub("(?m)^Port 22$", f"Port {port}", conf["sshd_config"])
            for folder, data in (("config", conf), ("services", maps["demo-compute-services"])):
                (own / folder).mkdir(parents=True)
                for file, text in data.items():
                    (own / folder / file).write_text(text)
                    (own / folder / file).chmod(0o755)
            (own / "keys").mkdir()
            (own / "keys/ssh_host_ed25519_key").write_bytes(host_key)
            (own / "keys/ssh_host_ed25519_key").chmod(0o400)
        people = self.accounting.root / "etc/ssh/people"
        people.mkdir()
        for name, text in maps["demo-ssh-keys"].items():
            (people / name).write_text(text)

    def replace_pods(self, values: Mapping[str, object]) -> None:
        """A slurmd that starts from now on is in a pod of these values."""
        pods = of_kind(render("slurm", values), "NodeSet").values()
        names = ("SUNKPY_PRIVATE_TMP", "SUNKPY_SHM", "SUNKPY_HIDE_PROCESSES")
        (env,) = {"".join(f"export {name}={_env_of(pod, name)}\n" for name in names) for pod in pods}
        (self.accounting.root / "pod-env").write_text(env)

    def connect(self, user: str, *, reader: str = "") -> Slurm:
        """A client of slurmrestd."""
        key = str(self.slurm.key_file)
        return Slurm.connect(SlurmSettings(url=self.slurm.url, user=user, reader=reader, jwt_key_file=key))

    async def settle(self) -> None:
        """Accounts are as values want them, slurmctld knows of them, and the nodes are there."""
        unused = SlurmSettings(url="http://nowhere", jwt_key_file="/nowhere")
        settings = msgspec.structs.replace(msgspec.yaml.decode(self._accounts, type=AccountsSettings), slurm=unused)
        admin = self.connect("slurm")
        loop = AccountsLoop(slurm=admin, settings=settings, metrics=AccountsMetrics(CollectorRegistry()))

        async def is_settled() -> bool:
            try:
                is_known = ("root", "") in (await admin.accounting("it")).associations
                return is_known and await loop.settle() and await self._is_usable(admin)
            except errors.SlurmError:
                return False

        try:
            await until(is_settled, timeout_s=90, every_s=0.2, what=f"the site is up: {loop.problem}")
        finally:
            await admin.close()

    async def restart(self, values: Mapping[str, object] = VALUES) -> None:
        """Restart slurmctld with other values. What has been used until now still counts."""
        before = self.slurm.starts("slurmctld")
        self.slurm.configure(slurm_conf(values))
        self.slurm.send("TERM", "slurmctld")
        admin = self.connect("slurm")

        async def is_back() -> bool:
            try:
                return self.slurm.starts("slurmctld") > before and await self._is_usable(admin)
            except errors.SlurmError:
                return False

        try:
            await until(is_back, timeout_s=60, every_s=0.2, what="slurmctld is back")
        finally:
            await admin.close()

    async def _is_usable(self, admin: Slurm) -> bool:
        nodes = [await admin.node(node.name) for node in self._nodes]
        shares = {share.user for share in await admin.shares()}
        return all(node.is_registered and not node.is_drain for node in nodes) and {"ann", "bob"} <= shares

    def shell(self, user: str, script: str, *, timeout_s: float = 300) -> tuple[int, str]:
        """Exit code, and what a script of bash says, as somebody who has logged in.

        Many commands of Slurm, one after the other, take minutes on a busy machine.
        """
        uid = PEOPLE[user]
        into = 'hostname localhost; mount --rbind /dev "$1/dev"; exec chroot --userspec="$2:$2" "$1" bash -c "$3"'
        argv = ["unshare", "--mount", "--uts", "bash", "-c", into, "-", str(self.slurm.root), str(uid), script]
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": f"/home/{user}",
            "USER": user,
            "LOGNAME": user,
        }
        out = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(argv, env=env, **out, text=True, check=False, cwd="/", timeout=timeout_s)
        return done.returncode, done.stdout

    def root_of(self, node: str) -> Path:
        """The files of a node's slurmd pod."""
        own = os.stat(self.slurm.root)
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words, root = (process / "cmdline").read_bytes().split(b"\0"), os.stat(process / "root")
            except OSError:  # it has ended meanwhile
                continue
            if words[0] == b"/usr/sbin/slurmd" and node.encode() in words and os.path.samestat(root, own):
                return process / "root"
        raise AssertionError(f"no slurmd of {node}")

    def signal_slurmd(self, node: str, signal: int) -> None:
        """Send a signal to the slurmd of one node. A slurmd that dies is started again."""
        os.kill(int(self.root_of(node).parent.name), signal)

    def kill_slurmd_container(self, node: str) -> None:
        """Kill the slurmd container of one node; another container is started."""
        slurmd = int(self.root_of(node).parent.name)
        keeper = int(Path(f"/proc/{slurmd}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it may have ended with its keeper
            os.kill(slurmd, signal.SIGKILL)

    def look_for_lost(self, node: str) -> str:
        """What requeue-lost says that starts now on a node, where as in a pod no process of another node is seen."""
        pod, seen = self.root_of(node), self.slurm.root / "var/tmp/pod"
        shutil.rmtree(seen, ignore_errors=True)
        shutil.copytree(pod / "var/lib/sunkpy/markers", seen / "markers")
        shutil.copy2(pod / "var/spool/slurmd/address", seen)
        (port,) = re.findall(r" Port=(\d+)", self.slurm.run_as("slurm", "scontrol", "-o", "show", "node", node)[1])
        env = f"SUNKPY_SLURM_NODE={node} SUNKPY_MARKERS=/var/tmp/pod/markers SUNKPY_SPOOL=/var/tmp/pod"
        run = f"exec chroot {self.slurm.root} env {env} SUNKPY_SLURMD_PORT={port} requeue-lost"
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c"]
        argv.append(f"mount -t proc proc {self.slurm.root}/proc && {run}")
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout

    async def clear(self) -> None:
        """No job of anybody is left."""

        async def is_idle() -> bool:
            return not self.slurm.run_as("slurm", "squeue", "--noheader")[1].strip()

        for user in PEOPLE:
            self.slurm.run_as("slurm", "scancel", f"--user={user}")
        await until(is_idle, timeout_s=60, what="all jobs to be gone")

    def logs(self) -> str:
        """The last lines of each daemon."""
        return f"{self.slurm.logs()}\n{self.accounting.logs()}"

    def stop(self) -> None:
        """All daemons end."""
        self.accounting.stop()
        self.slurm.stop()


def _env_of(nodeset: Mapping[str, Any], name: str) -> str:
    """What a slurmd pod has in its environment."""
    env = nodeset["spec"]["template"]["spec"]["containers"][0]["env"]
    return next((each["value"].replace("$$", "$") for each in env if each["name"] == name), "")


def _start(nodes: tuple[Node, ...], program: str) -> str:
    """What starts the nodes by a program of their image: each a slurmd pod of its own, by folders and name."""
    own = " && ".join(f"mkdir -p {folder} && mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in _PRIVATE)
    hosts = f"127.0.0.1 localhost first {' '.join(node.name for node in nodes)}\\n127.0.0.2 second\\n"
    lines = [KEEP_POD, f"printf '{hosts}' > /etc/hosts\n"]
    for node, port in zip(nodes, free_ports(len(nodes)), strict=True):
        size = (
            f"CPUs={node.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={node.cpus} ThreadsPerCore=1 RealMemory=32000"
        )
        gres = f" Gres={node.gres}" if node.gres else ""
        conf = f"{size} Feature={node.features}{gres} Port={port}"
        env = f"SUNKPY_SLURM_NODE={node.name} SUNKPY_CPUS={node.cpus} SUNKPY_MEMORY_MIB=32000"
        env += f" SUNKPY_SCRATCH=/tmp SUNKPY_POD_UID={node.name}"
        env += f" SUNKPY_FEATURES={node.features} SUNKPY_GRES={node.gres} SUNKPY_FAKE_GPUS=1"
        env += f" SUNKPY_SLURMD_PORT={port} SUNKPY_SERVICES=/site/{node.name}/services"
        markers = "/var/lib/sunkpy/markers"  # of the machine: they outlive the pod
        kept = f"mkdir -p /var/tmp/of-{node.name} {markers} && mount --bind /var/tmp/of-{node.name} {markers}"
        alone_there = f"hostname {node.name} && {own} && {kept} && chmod 1777 /tmp"
        site = f"[ ! -d /site ] || {{ mkdir /etc/sunkpy/sshd && mount --bind /site/{node.name} /etc/sunkpy/sshd; }}"
        start = f'{alone_there} && {site} && . /pod-env && exec env {env} {program} --conf "{conf}"'
        alone = f"unshare --mount --uts --propagation unchanged bash -c '{start}'"
        lines.append(f"keep_pod {alone} >> /var/log/slurmd-{node.name}.log 2>&1 &\n")
    conf_server = "export SUNKPY_CONF_SERVER=localhost:$(sed -n s/^SlurmctldPort=//p /etc/slurm/slurm.conf)\n"
    return conf_server + SHARE_GPUS + WEIGH_USERS + "".join(lines)
