"""The directory of charts/openldap as a process on a loopback port: its image, with what the chart mounts and says."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from devcluster.waiting import wait_until
from sunkpy.install.certificate import make_certificate
from sunkpy.install.keys import KINDS
from tests.integration.login.container import project, start
from tests.polling import listens
from tests.ports import free_ports
from tests.roots import discard, unpack
from tests.unit.charts.rendering import of_kind, render

HOST: Final = "demo-openldap.research.svc"
SUFFIX: Final = "dc=example,dc=com"
_OPENLDAP = "405"
_MOUNTS = (
    "tmpfs:run/slapd", "tmpfs:tmp", "data:var/lib/ldap", "config:config:ro", "keys:keys:ro",
    "certificate:certificate:ro",
)  # fmt: skip


class Directory:
    """OpenLDAP with the people of some values, as `HOST`. `conf` is an sssd.conf for it, `ca` its certificate."""

    def __init__(self, folder: Path, values: Mapping[str, object]) -> None:
        folder.mkdir()
        unpack("trixie", ("openldap",), folder / "root")
        for name in ("data", "config", "keys", "certificate"):
            (folder / name).mkdir()
        for name in ("config", "keys", "certificate"):
            (folder / "root" / name).mkdir()
        shutil.chown(folder / "data", int(_OPENLDAP), int(_OPENLDAP))
        self.folder = folder
        (self.port,) = free_ports(1)
        self.apply(values)
        self._make_keys()
        self.start()

    def _make_keys(self) -> None:
        """As the chart's Job makes them."""
        job = of_kind(self._manifests, "Job")["demo-openldap-keys"]["spec"]["template"]["spec"]
        (hosts,) = (each["args"][3:] for each in job["containers"] if each["name"] == "certificate")
        made = {name: text.decode() for name, text in make_certificate(hosts, now=datetime.now(UTC)).items()}
        self.ca, self.password = made["tls.crt"], KINDS["password"]().decode()
        project(self.folder / "certificate", made)
        project(self.folder / "keys", {"password": self.password})
        (self.folder / "root/etc/ca.crt").write_text(self.ca)
        (self.folder / "root/etc/hosts").write_text(f"127.0.0.1 localhost {HOST}\n")

    def apply(self, values: Mapping[str, object]) -> None:
        """What a kubelet does when the values are others."""
        self._manifests = render("openldap", values)
        entries = of_kind(self._manifests, "ConfigMap")["demo-openldap"]["data"]
        project(self.folder / "config", entries)

    def start(self) -> None:
        """All its people and groups are in it, as its kubelet would ask before it sends somebody there."""
        user = (f"--reuid={_OPENLDAP}", f"--regid={_OPENLDAP}", "--clear-groups")
        # Who becomes somebody else forgets to die with its parent, unless told to remember.
        rights = (*user, "--bounding-set=-all", "--pdeathsig=keep")
        env = {"SUNKPY_SUFFIX": SUFFIX, "SUNKPY_PORT": str(self.port), "SUNKPY_LOOK_S": "0.2"}
        self.process = start(self.folder, "start-openldap", mounts=_MOUNTS, rights=rights, env=env)
        filled = Path(f"/proc/{self.process.pid}/root{self.folder}/root/run/slapd/filled")
        if not wait_until(filled.exists, timeout_s=60, every_s=0.2):
            self.kill()
            raise TimeoutError(f"the directory has no people:\n{self.log()}")

    def found(self, what: str, *attributes: str) -> str:
        """Entries that a filter finds, as anybody sees them; nothing while it does not answer."""
        search = ("ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-b", SUFFIX, what, *attributes)
        return self._run(*search)[1]

    def as_admin(self, program: str, stdin: str = "") -> tuple[int, str]:
        """Exit code and output of a program of LDAP, by who has the password."""
        return self._run(program, "-x", "-D", f"cn=admin,{SUFFIX}", "-w", self.password, stdin=stdin)

    def as_nobody(self, program: str, stdin: str = "") -> tuple[int, str]:
        """The same by who has none."""
        return self._run(program, "-x", stdin=stdin)

    def _run(self, *command: str, stdin: str = "") -> tuple[int, str]:
        env = {"PATH": os.environ["PATH"], "LDAPTLS_CACERT": "/etc/ca.crt", "LDAPURI": f"ldaps://{HOST}:{self.port}"}
        argv = ["chroot", str(self.folder / "root"), *command]
        done = subprocess.run(argv, input=stdin, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    @property
    def conf(self) -> str:
        """What a site writes into users.sssd: the text of chart openldap, with another port."""
        text = str(of_kind(self._manifests, "ConfigMap")["demo-openldap-client"]["data"]["sssd.conf"])
        return text.replace(f"{HOST}:636", f"{HOST}:{self.port}")

    def log(self) -> str:
        """All that it has said."""
        return (self.folder / "log").read_text()

    def kill(self) -> None:
        """Kill the directory with all its processes, at any moment."""
        self.process.kill()
        self.process.wait()
        assert wait_until(lambda: not listens(self.port), timeout_s=10, every_s=0.05), "it is still there"

    def stop(self) -> None:
        """Nothing is left."""
        self.kill()
        discard(self.folder)
