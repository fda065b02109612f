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
_SAMBA: Final = ("samba-ad-dc", "samba-ad-provision", "samba-dsdb-modules")
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
samba-tool spn add ldap/{HOST} 'DC$'
samba-tool computer create slurm
samba-tool user setpassword 'SLURM$' --newpassword={PASSWORD}
samba-tool domain exportkeytab /root/krb5.keytab --principal='SLURM$'
sed -i '/server services/d' /etc/samba/smb.conf
services="server services = ldap kdc"
sed -i "/^\\[global\\]/a interfaces = $1/8\\nbind interfaces only = yes\\n$services" /etc/samba/smb.conf
exec samba -F --no-process-group --debug-stdout
"""
_NAMESPACES: Final = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "chroot")
DOMAIN: Final = """\
[sssd]
domains = ad.example.com
[nss]
default_shell = /bin/bash
[domain/ad.example.com]
auth_provider = none
access_provider = permit
case_sensitive = false
offline_timeout = 1
ldap_search_timeout = 60
"""
CONF: Final = {
    "ldap": f"""\
id_provider = ldap
ldap_schema = ad
ldap_id_mapping = true
ldap_referrals = false
ldap_uri = ldaps://{HOST}
ldap_tls_cacert = /site/ca.crt
ldap_search_base = dc=ad,dc=example,dc=com
ldap_default_bind_dn = cn=sssd,cn=users,dc=ad,dc=example,dc=com
ldap_default_authtok = {PASSWORD}
""",
    "ad": f"""\
id_provider = ad
ad_server = {HOST}
ad_enable_gc = false
ad_maximum_machine_account_password_age = 0
dyndns_update = false
ldap_sasl_authid = SLURM$@AD.EXAMPLE.COM
krb5_keytab = /site/krb5.keytab
""",
}
KERBEROS: Final = f"""\
[libdefaults]
default_realm = AD.EXAMPLE.COM
udp_preference_limit = 0
rdns = false
[realms]
AD.EXAMPLE.COM = {{
  kdc = {HOST}
}}
"""
"""/etc/krb5.conf of who has the keytab."""


def install(root: Path, *packages: str) -> None:
    """Add packages of Debian to an image that is unpacked in `root`, as a Dockerfile `FROM` it would."""
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    shutil.copytree("/etc/apt/apt.conf.d", root / "etc/apt/apt.conf.d", dirs_exist_ok=True)
    fast = "--no-install-recommends -o Dpkg::Options::=--force-unsafe-io"
    apt = f"apt-get update -qq && apt-get install -y -qq {fast} {' '.join(packages)}"
    env = _environment() | {"DEBIAN_FRONTEND": "noninteractive"}
    argv = [*_NAMESPACES, str(root), "bash", "-c", apt]
    subprocess.run(argv, check=True, timeout=400, env=env, stdin=subprocess.DEVNULL, capture_output=True)


def _environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return {**env, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


class ActiveDirectory:
    """It has ann, Bob.Jones, their group Chem, sssd, who may read, and the computer SLURM.

    `address`: where `HOST` is. `ca`: who signed its certificate. `keytab`: the key of the computer.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._root = folder, folder / "root"
        self.address = f"127.{secrets.randbelow(200) + 10}.{secrets.randbelow(200) + 10}.{secrets.randbelow(200) + 10}"
        unpack("trixie", ("openldap",), self._root)  # a small Debian
        install(self._root, *_SAMBA)
        argv = [*_NAMESPACES, str(self._root), "bash", "-c", _START, "-", self.address]
        with (folder / "log").open("wb") as log:
            out = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "env": _environment()}
            self._process = subprocess.Popen(argv, **out)
        if not wait_until(lambda: "TLS self-signed keys generated OK" in self.log(), timeout_s=300, every_s=0.5):
            self.stop()
            raise TimeoutError(f"the directory is not there:\n{self.log()}")
        self.ca = (self._root / "var/lib/samba/private/tls/ca.pem").read_text()
        self.keytab = (self._root / "root/krb5.keytab").read_bytes()

    def conf(self, provider: str) -> str:
        """What a site gives to users.sssd, by the provider of SSSD: `ldap` or `ad`."""
        return DOMAIN + CONF[provider]

    def log(self) -> str:
        """All that it has said."""
        return (self._folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Nothing is left."""
        self._process.kill()
        self._process.wait()
        discard(self._folder)
