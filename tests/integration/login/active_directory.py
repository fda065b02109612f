"""An Active Directory as processes on an address of loopback: Samba of Debian, which is installed for the test."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Final

from devcluster.waiting import wait_until
from tests.roots import discard, unpack

HOST: Final = "dc.ad.example.com"
PASSWORD: Final = "Pass-word-1"
_INSTALL: Final = """\
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends samba-ad-dc samba-ad-provision samba-dsdb-modules
"""
_START: Final = f"""\
set -e
mount -t proc proc /proc
hostname dc
printf '127.0.0.1 localhost\\n%s {HOST} dc\\n' "$1" > /etc/hosts
rm -f /etc/samba/smb.conf
samba-tool domain provision --realm=AD.EXAMPLE.COM --domain=AD --adminpass={PASSWORD} --server-role=dc \\
  --dns-backend=NONE --host-name=dc --host-ip="$1"
for user in ann Bob.Jones sssd; do samba-tool user create "$user" {PASSWORD}; done
samba-tool group add Chem
samba-tool group addmembers Chem ann,Bob.Jones
sed -i "/^\\[global\\]/a interfaces = $1/8\\nbind interfaces only = yes\\nserver services = ldap" /etc/samba/smb.conf
exec samba -F --no-process-group --debug-stdout
"""


class ActiveDirectory:
    """It has ann, Bob.Jones, their group Chem, and sssd, who may read.

    `address`: where `HOST` is. `ca`: who signed its certificate.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._root = folder, folder / "root"
        self.address = f"127.{secrets.randbelow(200) + 10}.{secrets.randbelow(200) + 10}.{secrets.randbelow(200) + 10}"
        unpack("trixie", ("openldap",), self._root)  # a small Debian
        shutil.copy("/etc/resolv.conf", self._root / "etc/resolv.conf")
        shutil.copytree("/etc/apt/apt.conf.d", self._root / "etc/apt/apt.conf.d", dirs_exist_ok=True)
        env = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        env["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
        enter = [
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "chroot",
            str(self._root),
            "bash",
            "-c",
        ]
        with (folder / "log").open("wb") as log:
            out = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "env": env}
            subprocess.run([*enter, _INSTALL], check=True, timeout=400, **out)
            self._process = subprocess.Popen([*enter, _START, "-", self.address], **out)
        made = self._root / "var/lib/samba/private/tls/ca.pem"
        if not wait_until(lambda: "TLS self-signed keys generated OK" in self.log(), timeout_s=300, every_s=0.5):
            self.stop()
            raise TimeoutError(f"the directory is not there:\n{self.log()}")
        self.ca = made.read_text()

    @property
    def conf(self) -> str:
        """What a site gives to users.sssd."""
        return f"""\
[sssd]
domains = ad.example.com
[nss]
default_shell = /bin/bash
[domain/ad.example.com]
id_provider = ldap
auth_provider = none
access_provider = permit
ldap_schema = ad
ldap_id_mapping = true
ldap_referrals = false
case_sensitive = false
ldap_uri = ldaps://{HOST}
ldap_tls_cacert = /site/ca.crt
ldap_search_base = dc=ad,dc=example,dc=com
ldap_default_bind_dn = cn=sssd,cn=users,dc=ad,dc=example,dc=com
ldap_default_authtok = {PASSWORD}
offline_timeout = 1
"""

    def log(self) -> str:
        """All that it has said."""
        return (self._folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Nothing is left."""
        self._process.kill()
        self._process.wait()
        discard(self._folder)
