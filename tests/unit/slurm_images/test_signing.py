"""What is missing to sign is said before anything is pushed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.slurm_images.test_build import build


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A key whose password is known, and a program cosign."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    for name in ("cosign", "cosign.key"):
        (tmp_path / name).touch(mode=0o755)
    return str(tmp_path / "cosign.key")


def test_a_key_with_a_password_that_may_be_empty_signs(key):
    assert build.obstacle(key) == ""


def test_without_cosign_nothing_signs(key, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for each in ("", key):
        assert build.obstacle(each) == "to sign takes cosign on the PATH: https://docs.sigstore.dev/cosign"


def test_a_key_that_is_not_there_is_named(key):
    assert build.obstacle("site.key").startswith("there is no key site.key: `cosign generate-key-pair`")


@pytest.mark.parametrize("elsewhere", ["", "awskms:///alias/release", "pkcs11:token=release"])
def test_only_a_file_needs_a_password(key, monkeypatch, elsewhere):
    monkeypatch.delenv("COSIGN_PASSWORD")
    assert build.obstacle(key).endswith("cosign.key into the environment variable COSIGN_PASSWORD; it may be empty")
    assert build.obstacle(elsewhere) == ""


def test_nothing_is_pushed_that_cannot_be_signed(key, monkeypatch):
    monkeypatch.delenv("COSIGN_PASSWORD")
    with pytest.raises(build.CannotBuild, match="COSIGN_PASSWORD"):
        build.push({"slurmd": {"ref": "never/read:1"}}, "r.example.com", key=key)
