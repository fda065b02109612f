"""Makes a self-signed certificate for a server that a chart installs, if no other certificate is given.

It is valid for ten years, because clients have a copy of it, and a person has to distribute the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_VALID = timedelta(days=3650)
_CLOCKS_DIFFER = timedelta(hours=1)


def make_certificate(hosts: Sequence[str], *, now: datetime) -> Mapping[str, bytes]:
    """Return a certificate and its key for these DNS names, as `tls.crt` and `tls.key` (cert-manager's names). The
    first name is also the subject.

    `now` is in UTC.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    # A subject has room for 64 characters; what counts are the alternative names.
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0][:64])])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCKS_DIFFER).not_valid_after(now + _VALID)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    made = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {"tls.crt": made.public_bytes(Encoding.PEM), "tls.key": private}
