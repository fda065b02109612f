"""JupyterHub with batchspawner, as its users install them, starts servers as jobs through a login pod by ssh.

The hub is no part of the cluster: it has the key of an authority that the login pods trust, and signs itself
certificates for whom it speaks. In the job a small server stands for a person's Jupyter: it tells the hub its port as
batchspawner-singleuser does.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from devcluster.waiting import wait_until
from tests.integration.login.authority import Authority
from tests.integration.login.pod import LoginPod
from tests.integration.slurm.daemons import ROOT, RealSlurm
from tests.ports import free_ports

pytestmark = pytest.mark.integration

PROGRAMS: Final = ROOT / "build/hub"
PEOPLE: Final = {"ann": {"uid": 2001}}
ACCEPTED: Final = "AcceptEnv JUPYTERHUB_* JPY_*"
SERVER: Final = """\
import http.server, json, os, socket, urllib.request
prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("X-JupyterHub-Version", "6.0")
        self.end_headers()
        told = {"uid": os.getuid(), "job": os.environ["SLURM_JOB_ID"], "path": self.path.removeprefix(prefix)}
        self.wfile.write(json.dumps(told).encode())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
headers = {"Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"], "Content-Type": "application/json"}
port = json.dumps({"port": server.server_address[1]}).encode()
url = os.environ["JUPYTERHUB_API_URL"] + "/batchspawner"
urllib.request.urlopen(urllib.request.Request(url, data=port, headers=headers), timeout=30).close()
server.serve_forever()
"""
# What docs/tasks/portals.md says, but for addresses, and a proxy that needs no node.js.
CONFIG: Final = """\
import batchspawner  # it adds a page to the hub's API
c.JupyterHub.spawner_class = "batchspawner.SlurmSpawner"
script = batchspawner.SlurmSpawner.batch_script.default_value
c.SlurmSpawner.batch_script = script.replace("--get-user-env=L", "--get-user-env")
c.SlurmSpawner.exec_prefix = "ssh -F {ssh_config} {{username}}@login"
c.SlurmSpawner.batch_query_cmd = "squeue -h -j {{job_id}} -o \\"'%T %B'\\""
c.SlurmSpawner.req_keepvars_extra = "PATH"
c.SlurmSpawner.req_partition = "low"
c.SlurmSpawner.req_memory = "50M"
c.SlurmSpawner.state_exechost_exp = "127.0.0.1"
c.SlurmSpawner.batchspawner_singleuser_cmd = "python3 /opt/server.py"
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub_port}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
c.ConfigurableHTTPProxy.command = ["{programs}/bin/configurable-http-proxy"]
c.JupyterHub.authenticator_class = "jupyterhub.auth.DummyAuthenticator"
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "test", "scopes": ["admin:users", "admin:servers"], "services": ["test"]}}]
c.Authenticator.allow_all = True
"""
SSH: Final = """\
Host login
  HostName 127.0.0.1
  Port {port}
  IdentityFile {key}
  IdentitiesOnly yes
  BatchMode yes
  LogLevel ERROR
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  SendEnv JUPYTERHUB_* JPY_*
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, slurm: RealSlurm, authority: Authority) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("login"), os.environ.get("SLURM_SUITE", "trixie"), slurm.root)
    ssh = {"trustedUserCAKeys": [authority.public], "extra": ACCEPTED}
    pod.apply({"users": {"people": PEOPLE}, "login": {"ssh": ssh}})
    pod.start()
    for name, person in PEOPLE.items():
        (slurm.root / "home" / name).mkdir()
        os.chown(slurm.root / "home" / name, person["uid"], person["uid"])
    (slurm.root / "opt/server.py").write_text(SERVER)
    yield pod
    pod.stop()


class Hub:
    """A running one. `url` of its proxy."""

    def __init__(self, folder: Path, pod: LoginPod, authority: Authority) -> None:
        self._folder, token = folder, secrets.token_hex(32)
        port, hub_port, api_port = free_ports(3)
        key = authority.sign("ann").file
        (folder / "ssh_config").write_text(SSH.format(port=pod.port, key=key))
        own = {"port": port, "hub_port": hub_port, "api_port": api_port, "token": token, "programs": PROGRAMS}
        (folder / "config.py").write_text(CONFIG.format(ssh_config=folder / "ssh_config", **own))
        lines = (
            f"{name}:x:{person['uid']}:{person['uid']}::/home/{name}:/bin/bash\n" for name, person in PEOPLE.items()
        )
        (folder / "passwd").write_text(Path("/etc/passwd").read_text() + "".join(lines))
        into = 'mount --bind passwd /etc/passwd; exec "$@"'
        hub = [str(PROGRAMS / "bin/jupyterhub"), "-f", "config.py"]
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-ec", into, "-", *hub]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.url = f"http://127.0.0.1:{port}"
        self._api = httpx.Client(
            base_url=f"{self.url}/hub/api", headers={"Authorization": f"token {token}"}, timeout=60
        )

    def asks(self, method: str, path: str) -> int:
        """The status of an answer; 0 without one."""
        try:
            return self._api.request(method, path).status_code
        except httpx.TransportError:
            return 0

    def is_ready(self, user: str) -> bool:
        """The server of a person answers."""
        return bool(self._api.get(f"/users/{user}").json()["servers"].get("", {}).get("ready"))

    def log(self) -> str:
        """All that it has said."""
        return (self._folder / "log").read_text()

    def stop(self) -> None:
        """Stop the hub and its proxy."""
        self._api.close()
        self._process.kill()
        self._process.wait()


@pytest.fixture
def hub(tmp_path: Path, pod: LoginPod, authority: Authority) -> Iterator[Hub]:
    sync = [str(Path(sys.prefix) / "bin/uv"), "sync", "--system-certs", "--frozen", "--quiet", "--only-group", "hub"]
    env = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(PROGRAMS)}
    subprocess.run([*sync, "--python", sys.executable], check=True, cwd=ROOT, env=env, timeout=300)
    hub = Hub(tmp_path, pod, authority)
    try:
        assert wait_until(lambda: hub.asks("GET", "/") == 200, timeout_s=300, every_s=0.2), hub.log()
        yield hub
    finally:
        hub.stop()


def _outputs(slurm: RealSlurm) -> str:
    return "".join(file.read_text() for file in (slurm.root / "home/ann").glob("*.log"))


def test_a_server_of_a_person_is_their_job_and_ends_with_it(hub: Hub, slurm: RealSlurm, pod: LoginPod):
    assert hub.asks("POST", "/users/ann") == 201
    assert hub.asks("POST", "/users/ann/server") in (201, 202), hub.log() + _outputs(slurm)
    assert wait_until(lambda: hub.is_ready("ann"), timeout_s=300, every_s=0.5), hub.log() + slurm.logs()
    told = httpx.get(f"{hub.url}/user/ann/lab/tree", timeout=30).json()
    assert (told["uid"], told["path"]) == (2001, "lab/tree")
    running = ("squeue", "--noheader", "--states=RUNNING", "--format=%i %u %P %j")
    assert slurm.run_as("slurm", *running) == (0, f"{told['job']} ann low spawner-jupyterhub\n")
    assert hub.asks("DELETE", "/users/ann/server") in (202, 204)
    assert wait_until(lambda: slurm.run_as("slurm", *running)[1] == "", timeout_s=60, every_s=0.2), hub.log()
