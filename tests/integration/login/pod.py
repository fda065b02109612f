"""Container sshd of a login pod as a process: the image, with what the chart mounts and the rights that it gives.

A root of its own that cannot be written to, the volumes bound into it, the capabilities of the chart and no others.
What a kubelet would mount is read off the rendered chart, so the two are proved together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.person import CLIENT, Key
from devcluster import packages
from devcluster.waiting import wait_until
from sunkpy.install.keys import KINDS
from tests import process_tree
from tests.integration.login.container import project, start
from tests.polling import listens
from tests.ports import free_ports
from tests.roots import OF_SSSD, discard, unpack
from tests.unit.charts.rendering import Manifest, of_kind, render

_SSHD = (
    "run:run", "tmpfs:tmp", "home:home", "people:var/lib/extrausers:ro", "ssh-keys:etc/ssh/people:ro",
    "config:config:ro", "ca:ca:ro", "keys:keys:ro", "config/sshd.pam:etc/pam.d/sshd:ro",
    "directory/pipes:var/lib/sss/pipes:ro", "directory/mc:var/lib/sss/mc:ro",
)  # fmt: skip
_SSSD = ("tmpfs:run", "tmpfs:tmp", "tmpfs:etc/sssd", "tmpfs:var/log", "directory:var/lib/sss", "site:site:ro")
_OF_SLURM = ("slurm/run:run/slurm:ro", "slurm/etc:etc/slurm:ro")
_READ = "Server listening on 0.0.0.0"
"""sshd says it once it has read its configuration, and listens where people come in here."""


class LoginPod:
    """sshd for the people of some values. With `slurm`, the root of a real one, they have its commands.

    `hosts`: names of servers that are on this machine. `person`: whose own it is.
    """

    def __init__(
        self, folder: Path, suite: str, slurm: Path | None = None, *, hosts: Sequence[str] = (), person: str = ""
    ) -> None:
        self.folder, self._slurm, self._person = folder, slurm, person
        packages.ensure(CLIENT, progress=print)
        unpack(suite, ("login",), folder / "root")
        unpack(OF_SSSD, ("sssd",), folder / "sssd")
        of_pod = ("home", "run", "people", "ssh-keys", "config", "ca", "keys", "site")
        for name in (*of_pod, "directory/pipes", "directory/mc"):
            (folder / name).mkdir(parents=True)
        for name in ("root/config", "root/ca", "root/keys", "root/etc/ssh/people", "sssd/site"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "ssh-keys").chmod(0o1777)  # as the kubelet leaves the folder of a ConfigMap
        for name in ("home", "run", "directory", "directory/pipes", "directory/mc"):
            (folder / name).chmod(0o777)
        for image in ("root", "sssd"):
            (folder / image / "etc/hosts").write_text(f"127.0.0.1 {' '.join(('localhost', *hosts))}\n")
        self.make_host_key()
        if slurm:
            self._share(slurm)
        (self.port,) = free_ports(1)
        self._processes: list[subprocess.Popen[bytes]] = []

    def make_host_key(self) -> None:
        """What a kubelet mounts of a new Secret."""
        part = self.folder / "keys/part"
        part.write_bytes(KINDS["ssh_host_ed25519_key"]())
        part.chmod(0o400)
        part.rename(self.folder / "keys/ssh_host_ed25519_key")

    def _share(self, slurm: Path) -> None:
        (self.folder / "slurm").mkdir()
        (self.folder / "slurm/run").symlink_to(slurm / "run/slurm")
        (self.folder / "slurm/etc").mkdir()
        shutil.copy(slurm / "etc/slurm/slurm.conf", self.folder / "slurm/etc")

    def apply(self, values: Mapping[str, object]) -> None:
        """What a kubelet does when the values are others. A running sshd has read them then: meanwhile it takes no
        connection, and a client then ends with the code of somebody who has no key.
        """
        before, configured = self.reads(), self._configured()
        self._project(values)
        if self._configured() != configured and self._processes and self.is_up():
            assert wait_until(lambda: self.reads() > before, timeout_s=60, every_s=0.05), self.log()

    def reads(self) -> int:
        """How often sshd has read its configuration."""
        return self.log().count(_READ)

    def _configured(self) -> str:
        file = self.folder / "config/sshd_config"
        return file.read_text() if file.exists() else ""

    def _project(self, values: Mapping[str, object]) -> None:
        manifests = render("slurm", values)
        maps = of_kind(manifests, "ConfigMap")
        project(self.folder / "people", maps["demo-people"]["data"])
        for name, text in maps["demo-people"]["data"].items() if self._slurm else ():
            (self._slurm / "var/lib/extrausers" / name).write_text(text)
        project(self.folder / "ssh-keys", maps["demo-ssh-keys"].get("data") or {})
        for secret in of_kind(manifests, "Secret").values():
            project(self.folder / "site", secret["stringData"])
        files = dict(maps["demo-login"]["data"])
        files["sshd_config"] = files["sshd_config"].replace("Port 2222", f"Port {self.port}")
        project(self.folder / "config", files)
        self._manifests = manifests

    def _container(self, name: str) -> Manifest:
        pod = of_kind(self._manifests, "StatefulSet")[self._workload]["spec"]["template"]["spec"]
        containers = (*pod.get("initContainers", ()), *pod["containers"])
        return next(each for each in containers if each["name"] == name)

    @property
    def _workload(self) -> str:
        return f"demo-login-{self._person}" if self._person else "demo-login"

    def start(self, env: Mapping[str, str] | None = None) -> None:
        """sssd where values want one, make-homes, as the init container of that name, then sshd.

        `env`: what of sshd's is another than the chart says, to wait less.
        """
        if (self.folder / "site/sssd.conf").exists():
            self._start("sssd", _SSSD, {})
            pipe = self.folder / "directory/pipes/nss"
            assert wait_until(pipe.is_socket, timeout_s=60, every_s=0.1), self.log()
        if not self._person:
            self._make_homes()
        self.start_again(env or {})
        assert wait_until(lambda: listens(self.port), timeout_s=60, every_s=0.05), self.log()

    def start_again(self, env: Mapping[str, str]) -> None:
        """sshd alone, as a kubelet starts a container that has ended."""
        self._start("sshd", _SSHD + (_OF_SLURM if self._slurm else ()), env)

    def _make_homes(self) -> None:
        make_homes = ["chroot", self.folder / "root", "/usr/local/bin/make-homes", "65520"]
        binds = "mount --bind home root/home; mount --bind /dev root/dev; mount -t proc proc root/proc"
        script = f'cd {self.folder}; {binds}; exec "$@"'
        subprocess.run(["unshare", "--mount", "bash", "-ec", script, "-", *make_homes], check=True, timeout=60)

    def _start(self, name: str, mounts: tuple[str, ...], env: Mapping[str, str]) -> None:
        container = self._container(name)
        added = container["securityContext"]["capabilities"].get("add", ())
        bounding = ",".join(("-all", *(f"+{each.lower()}" for each in added)))
        rights = (f"--bounding-set={bounding}", "--inh-caps=-all")
        environment = {"SUNKPY_LOOK_S": "0.2"}
        environment |= {entry["name"]: entry["value"] for entry in container.get("env", ())} | dict(env)
        image = "sssd" if name == "sssd" else "root"
        process = start(self.folder, f"start-{name}", mounts=mounts, rights=rights, env=environment, image=image)
        self._processes.append(process)

    def ended(self) -> int:
        """The exit code of its last process, when it ends."""
        return self._processes[-1].wait(timeout=60)

    def is_up(self) -> bool:
        """True if the pod's last process runs."""
        return self._processes[-1].poll() is None

    def running(self, command: str) -> list[int]:
        """Whose command line this is, of all processes in it."""
        return [pid for process in self._processes for pid in process_tree.running(process.pid, command)]

    def log(self) -> str:
        """All that sshd has said."""
        file = self.folder / "log"
        return file.read_text() if file.exists() else ""

    def ssh(
        self,
        user: str,
        key: Key,
        *command: str,
        options: tuple[str, ...] = (),
        display: str = "",
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[str]:
        """A client, started; `display` is the person's own."""
        known = self.folder / "known_hosts"
        fixed = (
            "BatchMode=yes",
            "StrictHostKeyChecking=accept-new",
            f"UserKnownHostsFile={known}",
            "IdentitiesOnly=yes",
        )
        wanted = [word for option in (*fixed, *options) for word in ("-o", option)]
        argv = ["ssh", "-F", "none", *wanted, "-i", str(key.file), "-p", str(self.port), f"{user}@127.0.0.1", *command]
        return subprocess.Popen(
            argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={"PATH": os.environ["PATH"], "DISPLAY": display},
        )  # fmt: skip

    def said(self, user: str, key: Key, *command: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
        """Exit code and output of a command of somebody who comes by ssh; 255 when sshd refuses them."""
        client = self.ssh(user, key, *command, options=options)
        output, _ = client.communicate(timeout=180)
        return client.returncode, output

    def entered(self, uid: int, *command: str) -> str:
        """Output of a command by `kubectl exec`, with the environment that a runtime gives to a uid."""
        (inside,) = subprocess.check_output(["pgrep", "--parent", str(self._processes[-1].pid)], text=True).split()
        enter = ["nsenter", f"--target={inside}", "--mount", "--uts", "--pid", "--root", "--wd"]
        rights = ("--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", *rights]
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
        return subprocess.check_output([*enter, *become, *command], env=env, text=True, timeout=60)

    def login_seconds(self, user: str, key: Key) -> float:
        """How long a client takes to come, do nothing, and go."""
        start = time.monotonic()
        code, output = self.said(user, key, "true")
        assert code == 0, output + self.log()
        return time.monotonic() - start

    def kill(self) -> None:
        """Every process goes with its namespace, a moment after the one that was started."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes = []
        assert wait_until(lambda: not listens(self.port), timeout_s=60, every_s=0.05), self.log()

    def stop(self) -> None:
        """Nothing is left."""
        self.kill()
        discard(self.folder)
