from pathlib import Path

import pytest
from click.testing import CliRunner

from devcluster.cli import main, parse_labels
from devcluster.errors import DevclusterError


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SUNKPY_DEVCLUSTER_HOME", "/tmp/none")
    return lambda *argv: CliRunner().invoke(main, argv)


def test_labels_are_read_per_node():
    assert parse_labels(("node-1=zone=a", "node-1=disk=", "node-2=k=v=w")) == {
        "node-1": {"zone": "a", "disk": ""},
        "node-2": {"k": "v=w"},
    }


@pytest.mark.parametrize("label", ["node-1", "node-1=zone", "=zone=a", "node-1==a"])
def test_a_label_that_cannot_be_read_is_refused_with_an_example(label: str):
    with pytest.raises(DevclusterError, match="node-1=zone=a"):
        parse_labels((label,))


@pytest.mark.parametrize(
    "command",
    [["status"], ["env"], ["load", "/dev/null"], ["fault", "cut", "node-1"], ["fault", "driver-stop", "node-1"]],
)
def test_a_command_on_a_cluster_that_is_not_there_fails_without_a_traceback(run, command: list):
    result = run(*command, "--name", "nobody") if command[0] != "load" else run("load", "--name", "nobody", __file__)
    assert result.exit_code == 1
    assert "there is no cluster 'nobody'" in result.output
    assert "Traceback" not in result.output


def test_a_bad_name_is_refused(run):
    result = run("down", "--name", "../etc")
    assert result.exit_code == 1
    assert "cannot be used" in result.output


def test_a_program_that_there_is_not_is_refused_with_those_that_there_are(run):
    result = run("programs", "helm", "helmet")
    assert result.exit_code == 1
    assert "no program is called helmet: there are kubernetes, coredns, helm" in result.output
