"""A real OpenLDAP with people, as a process on a loopback port."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from devcluster.waiting import wait_until
from tests.polling import listens

_DOCKERFILE = """\
FROM docker.io/library/debian:trixie-slim
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends slapd && rm -rf /var/lib/apt/lists/*
"""
_IMAGE = "localhost/sunkpy-test-slapd"
_CERTIFICATES = "/etc/ssl/certs"
PASSWORD = "pa:ss w#rd"

_CONF = f"""\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey'
  EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
pidfile /run/test-slapd.pid
TLSCertificateFile /etc/ldap/test.crt
TLSCertificateKeyFile /etc/ldap/test.key
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
maxsize 104857600
suffix dc=example,dc=com
rootdn cn=admin,dc=example,dc=com
rootpw "{PASSWORD}"
directory /var/lib/test-ldap
index uid,uidNumber,gidNumber,memberUid eq
access to * by users read by * none
"""

_TREE = """\
dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: cn=lab,dc=example,dc=com
objectClass: posixGroup
cn: lab
gidNumber: 7000
"""


class Directory:
    """OpenLDAP with one group, lab (7000), of all its people. `conf` is an sssd.conf for it, `ca` its certificate."""

    def __init__(self, folder: Path, people: Iterable[tuple[str, int, str]]) -> None:
        folder.mkdir()
        build = ["buildah", "build", "--layers", "--isolation", "chroot", "--network", "host"]
        trust = ["--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro"]
        subprocess.run(
            [*build, *trust, "--tag", _IMAGE, "-"], input=_DOCKERFILE, capture_output=True, text=True, check=True
        )
        self._container = _output("buildah", "from", "--pull-never", _IMAGE)
        self._root = Path(_output("buildah", "mount", self._container))
        (self._root / "var/lib/test-ldap").mkdir()
        (self._root / "etc/ldap/test.conf").write_text(_CONF)
        self.ca, key = _certificate()
        (self._root / "etc/ldap/test.crt").write_text(self.ca)
        (self._root / "etc/ldap/test.key").write_text(key)
        entries = "\n".join(_person(*person) for person in people)
        members = "".join(f"memberUid: {name}\n" for name in _names(entries))
        subprocess.run(
            ["chroot", self._root, "slapadd", "-q", "-f", "/etc/ldap/test.conf"],
            input=f"{_TREE}{members}\n{entries}", text=True, check=True,
        )  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.port = held.getsockname()[1]
        listen = ["slapd", "-d", "0", "-h", f"ldaps://127.0.0.1:{self.port}", "-f", "/etc/ldap/test.conf"]
        self._process = subprocess.Popen(["chroot", self._root, *listen], stdin=subprocess.DEVNULL)
        assert wait_until(lambda: listens(self.port), timeout_s=60, every_s=0.1)
        self._folder = folder

    @property
    def conf(self) -> str:
        """What a site writes: values users.sssd.config."""
        return f"""\
[sssd]
domains = example
[domain/example]
id_provider = ldap
auth_provider = none
access_provider = permit
ldap_uri = ldaps://127.0.0.1:{self.port}
ldap_tls_cacert = /site/ca.crt
ldap_search_base = dc=example,dc=com
ldap_default_bind_dn = cn=admin,dc=example,dc=com
ldap_default_authtok = {PASSWORD}
ldap_user_ssh_public_key = sshPublicKey
min_id = 1000
"""

    def stop(self) -> None:
        """Nothing is left but the cached image."""
        self._process.kill()
        self._process.wait()
        _output("buildah", "rm", self._container)
        shutil.rmtree(self._folder)


def _certificate() -> tuple[str, str]:
    """Certificate and key of 127.0.0.1, for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    where = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    made = builder.add_extension(where, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return made.public_bytes(Encoding.PEM).decode(), private.decode()


def _person(name: str, uid: int, key: str) -> str:
    classes = "".join(f"objectClass: {each}\n" for each in ("account", "posixAccount", "ldapPublicKey"))
    numbers = f"uidNumber: {uid}\ngidNumber: 7000\n"
    return (
        f"dn: uid={name},dc=example,dc=com\n{classes}uid: {name}\ncn: {name}\n{numbers}"
        f"homeDirectory: /Users/{name}\nloginShell: /usr/bin/fish\nsshPublicKey: {key}\n"
    )


def _names(entries: str) -> list[str]:
    return [line.removeprefix("uid: ") for line in entries.splitlines() if line.startswith("uid: ")]


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
