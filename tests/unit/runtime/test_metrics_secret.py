"""Who may read metrics, and with which certificate a process answers."""

from __future__ import annotations

import os

import pytest

from sunkpy.runtime.metrics_secret import MetricsSecret
from sunkpy.runtime.settings import BadSettings
from tests.unit.runtime.certificates import TOKEN, write_certificate


@pytest.fixture
def secret(tmp_path):
    write_certificate(tmp_path)
    return MetricsSecret(tmp_path)


@pytest.mark.parametrize(
    ("given", "is_admitted"),
    [
        (f"Bearer {TOKEN}", True),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer \udcff", False),
        (TOKEN, False),
        ("Bearer ", False),
        ("", False),
    ],
)
def test_only_the_token_is_admitted(secret, given, is_admitted):
    assert secret.admits(given) is is_admitted


def test_a_new_token_counts_at_once(secret, tmp_path):
    (tmp_path / "token").write_text("other")
    assert (secret.admits("Bearer other"), secret.admits(f"Bearer {TOKEN}")) == (True, False)


@pytest.mark.parametrize("spoil", ["unlink", "empty"])
def test_without_a_token_nobody_is_admitted(secret, tmp_path, spoil):
    (tmp_path / "token").unlink() if spoil == "unlink" else (tmp_path / "token").write_text("\n")
    assert not secret.admits("Bearer ")


def test_the_context_changes_with_the_files_only(secret, tmp_path):
    before = secret.context()
    assert secret.context() is before
    write_certificate(tmp_path)
    later_ns = (tmp_path / "tls.crt").stat().st_mtime_ns + 1
    os.utime(tmp_path / "tls.crt", ns=(later_ns, later_ns))
    assert secret.context() is not before


def test_a_certificate_that_cannot_be_used_changes_nothing(secret, tmp_path):
    before = secret.context()
    (tmp_path / "tls.key").write_text("no key")
    assert (secret.context(), secret.context()) == (before, before)
    (tmp_path / "tls.crt").unlink()
    assert secret.context() is before


def test_without_a_certificate_no_process_starts(tmp_path):
    with pytest.raises(BadSettings, match=r"tls\.crt"):
        MetricsSecret(tmp_path)
