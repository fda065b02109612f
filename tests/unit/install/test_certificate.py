from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from sunkpy.install.certificate import make_certificate

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LONG = f"{'people-openldap.' * 5}research.svc"


def test_it_is_for_each_of_its_names_and_for_years():
    made = make_certificate((LONG, "b.svc"), now=NOW)
    certificate = x509.load_pem_x509_certificate(made["tls.crt"])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [LONG, "b.svc"]
    assert certificate.not_valid_before_utc < NOW
    assert certificate.not_valid_after_utc.year == 2035


def test_a_server_can_use_it_and_who_has_it_trusts_that_server(tmp_path: Path):
    made = make_certificate(("a.svc",), now=NOW)
    for name, text in made.items():
        (tmp_path / name).write_bytes(text)
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    ssl.create_default_context(cafile=tmp_path / "tls.crt")
    assert make_certificate(("a.svc",), now=NOW)["tls.key"] != made["tls.key"]
