from __future__ import annotations

from pathlib import Path

import pytest

from sunkpy.runtime.settings import BadSettings, ProcessSettings, SlurmSettings, load


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_keys_are_camel_case_and_defaults_hold(tmp_path: Path) -> None:
    settings = load(write(tmp_path, "namespace: slurm\nleaderElection: {leaseName: syncer}\n"), ProcessSettings)
    assert settings.namespace == "slurm"
    assert settings.leader_election.lease_name == "syncer"
    assert settings.http.port == 8080


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("namspace: x", "namspace"),
        ("http: {port: eighty}", "http.port"),
        ("log: {level: loud}", "log.level"),
        (": :", "config.yaml"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        load(write(tmp_path, text), ProcessSettings)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="No such file"):
        load(tmp_path / "none.yaml", ProcessSettings)


@pytest.mark.parametrize("keys", ["", "jwtKeyFile: a\ntokenFile: b\n"])
def test_slurm_needs_exactly_one_source_of_tokens(tmp_path: Path, keys: str) -> None:
    with pytest.raises(BadSettings, match="exactly one of jwtKeyFile and tokenFile"):
        load(write(tmp_path, f"url: http://x:6820\n{keys}"), SlurmSettings)
