"""slurmctld, slurmrestd and one slurmd of our own images, as processes on loopback ports: no cluster, no container."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from devcluster.waiting import wait_until

ROOT = Path(__file__).parents[3]
NODE = "gpu-000-001"

_SLURM_CONF = """\
ClusterName=it
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
StateSaveLocation=/var/lib/slurm
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MaxNodeCount=16
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
KillWait=2
PartitionName=low Nodes=ALL Default=YES PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=10
"""

_START = f"""\
#!/bin/bash
mount -t proc proc /proc && mount -t tmpfs tmpfs /tmp && cd /tmp
as() {{ local user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@" & }}
as slurm slurmctld -i -D > /var/log/slurmctld.log 2>&1
slurmd -D -Z -N {NODE} --conf 'CPUs=2 RealMemory=1000 Feature=gpu' > /var/log/slurmd.log 2>&1 &
as slurmrestd env SLURM_JWT=daemon slurmrestd -s slurmctld -a rest_auth/jwt 127.0.0.1:$1 > /var/log/slurmrestd.log 2>&1
wait
"""


class RealSlurm:
    """A running Slurm. `url` of slurmrestd, `key_file` to mint tokens with."""

    def __init__(self, folder: Path, suite: str) -> None:
        self.root = folder / "root"
        _unpack(suite, folder, self.root)
        ctld_port, slurmd_port, rest_port = _free_ports(3)
        etc = self.root / "etc/slurm"
        (etc / "slurm.conf").write_text(_SLURM_CONF.format(ctld_port=ctld_port, slurmd_port=slurmd_port))
        (etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        self.key_file = etc / "jwt.key"
        for key in (etc / "slurm.key", self.key_file):
            key.write_bytes(secrets.token_bytes(64))
            key.chmod(0o600)
            os.chown(key, 401, 401)
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        start = self.root / "start"
        start.write_text(_START)
        start.chmod(0o755)
        self.url = f"http://127.0.0.1:{rest_port}"
        into = f"hostname localhost; mount --bind /dev {self.root}/dev; exec chroot {self.root} /start {rest_port}"
        namespaces = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        self._process = subprocess.Popen([*namespaces, "bash", "-c", into], stdin=subprocess.DEVNULL)
        _wait_for_port(rest_port, self)

    def logs(self) -> str:
        """The last lines of each daemon."""
        files = sorted((self.root / "var/log").glob("slurm*.log"))
        return "\n".join(f"{file.name}: {line}" for file in files for line in file.read_text().splitlines()[-8:])

    def stop(self) -> None:
        """Every process goes with its namespace."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.root.parent)


def _unpack(suite: str, folder: Path, root: Path) -> None:
    build = [sys.executable, str(ROOT / "slurm-images/build"), "--suite", suite, "--only", "slurm"]
    subprocess.run(build, check=True, cwd=ROOT)
    images = json.loads((ROOT / "build/images/images.json").read_text())[suite]
    archive, blobs = images["slurmctld"]["archive"], folder / "archive"
    wanted = {images[name]["ref"] for name in ("slurmctld", "slurmrestd", "slurmd")}
    blobs.mkdir()
    root.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", blobs], check=True)
    layers: dict[str, None] = {}
    for image in json.loads((blobs / "manifest.json").read_text()):
        if wanted & set(image["RepoTags"]):
            layers |= dict.fromkeys(image["Layers"])
    for layer in layers:
        subprocess.run(["tar", "-xf", blobs / layer, "-C", root, "--exclude=.wh.*", "--exclude=dev/*"], check=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def _wait_for_port(port: int, slurm: RealSlurm) -> None:
    def listens() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    if wait_until(listens, timeout_s=30, every_s=0.1):
        return
    said = slurm.logs()
    slurm.stop()
    raise TimeoutError(f"slurmrestd does not listen:\n{said}")
