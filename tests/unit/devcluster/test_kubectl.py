import json
from pathlib import Path

import pytest

from devcluster.kubectl import Kubectl
from devcluster.shell import CommandFailed
from sunkpy.core.model.objects import Pod

SAYS_WHAT_IT_WAS_TOLD = """#!/bin/sh
case "$*" in
*nope*) echo "no such thing" >&2; exit 1 ;;
*pods*) echo '{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}' ;;
*pod*) echo '{"metadata": {"name": "a"}}' ;;
*) echo "$KUBECONFIG $*"; cat ;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    """A program that answers as kubectl does, found before the one on PATH."""
    program = tmp_path / "kubectl"
    program.write_text(SAYS_WHAT_IT_WAS_TOLD)
    program.chmod(0o755)
    return Kubectl(Path("/admin.conf"), tmp_path)


def test_it_speaks_to_its_own_cluster_with_its_own_program(kubectl: Kubectl) -> None:
    assert kubectl("version", stdin="and reads") == "/admin.conf version\nand reads"


def test_objects_are_read_typed_or_as_they_are(kubectl: Kubectl) -> None:
    assert kubectl.get(Pod, "pod", "a").name == "a"
    assert [pod.name for pod in kubectl.list(Pod, "pods", "-A")] == ["a", "b"]
    assert kubectl.json("pod", "a") == {"metadata": {"name": "a"}}


def test_a_refusal_is_told_in_its_words(kubectl: Kubectl) -> None:
    with pytest.raises(CommandFailed, match=r"`kubectl get nope` failed with exit code 1: no such thing"):
        kubectl("get", "nope")


def test_several_objects_are_applied_at_once(tmp_path: Path, kubectl: Kubectl) -> None:
    sent = tmp_path / "sent"
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncat > {sent}\n")
    kubectl.apply({"kind": "A"}, {"kind": "B"})
    assert json.loads(sent.read_text()) == {"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}
