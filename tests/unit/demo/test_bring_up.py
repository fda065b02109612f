import json
from pathlib import Path

import pytest

from demo.bring_up import (
    GPUS_PER_NODE,
    PAGE_PORT,
    CannotStart,
    Image,
    all_offer_gpus,
    check_gpus,
    describe_unready,
    fingerprint,
    how_to_use,
    own_cluster,
    publish,
    slurm_values,
    take_back_unfinished,
)
from demo.stack import Stack
from devcluster import Cluster
from devcluster.waiting import NotYet

IMAGES = {"sunkpy": Image(ref="docker.io/sunkpy/sunkpy:1", archive="build/images/sunkpy.tar")}


def _chart(folder: Path) -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("name: x")
    (folder / "templates" / "a.yaml").write_text("a: 1")
    return folder


def test_the_fingerprint_of_a_chart_is_that_of_its_files_and_values(tmp_path: Path) -> None:
    one, other = _chart(tmp_path / "one"), _chart(tmp_path / "other")
    assert fingerprint(one, {"image": "x", "n": 1}) == fingerprint(other, {"n": 1, "image": "x"})
    assert fingerprint(one, {"image": "x"}) != fingerprint(one, {"image": "y"})
    (other / "templates" / "a.yaml").write_text("a: 2")
    assert fingerprint(one, {}) != fingerprint(other, {})


def test_somebody_elses_cluster_needs_a_way_to_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMAGE_REGISTRY", raising=False)
    monkeypatch.delenv("SUNKPY_IMAGES_LOADED", raising=False)
    with pytest.raises(CannotStart, match="IMAGE_REGISTRY"):
        publish(IMAGES, "trixie", print)
    monkeypatch.setenv("SUNKPY_IMAGES_LOADED", "1")
    assert publish(IMAGES, "trixie", print) == {"sunkpy": "docker.io/sunkpy/sunkpy:1"}


def test_a_kubeconfig_of_somebody_else_is_respected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert own_cluster("sunkpy") is None


def test_the_kubeconfig_of_the_development_cluster_is_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(Cluster("sunkpy").kubeconfig))
    assert own_cluster("sunkpy") is not None
    monkeypatch.delenv("KUBECONFIG")
    assert own_cluster("sunkpy") is not None


def test_nodes_that_are_one_machine_do_not_pin_their_jobs_to_its_cpus(tmp_path: Path) -> None:
    def values(bin_dir: Path | None) -> object:
        stack = Stack(suite="trixie", kubeconfig=tmp_path / "config", bin_dir=bin_dir, images={})
        return slurm_values(stack).get("slurmConfig")

    assert values(tmp_path) == {"cgroup": "disabled"}
    assert values(None) is None, "another cluster has what the chart has"


def test_pods_share_nodes_only_where_the_device_plugin_hands_out_their_gpus(tmp_path: Path) -> None:
    def scheduler(bin_dir: Path | None) -> object:
        stack = Stack(suite="trixie", kubeconfig=tmp_path / "config", bin_dir=bin_dir, images={})
        return slurm_values(stack)["scheduler"]

    own, other = scheduler(tmp_path), scheduler(None)
    assert isinstance(own, dict)
    assert isinstance(other, dict)
    plugin = {"resource": "nvidia.com/gpu", "pretend": GPUS_PER_NODE}
    assert (own["gpuSharing"], own["devicePlugin"]) == ("plugin", plugin)
    assert "gpuSharing" not in other, "whole nodes, by the chart's default"
    assert own["access"] == other["access"]


def test_a_node_pretends_as_many_gpus_as_are_asked_for(tmp_path: Path) -> None:
    stack = Stack(suite="trixie", kubeconfig=tmp_path / "config", bin_dir=tmp_path, images={})
    scheduler = slurm_values(stack, gpus=16)["scheduler"]
    assert isinstance(scheduler, dict)
    assert scheduler["devicePlugin"]["pretend"] == 16


NODES = [
    {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "2"} | gpus}}
    for name, gpus in {"node-1": {"nvidia.com/gpu": "2"}, "node-2": {"nvidia.com/gpu": "0"}, "fake-1": {}}.items()
]


def test_the_demo_waits_for_the_gpus_of_its_nodes(tmp_path: Path) -> None:
    stack = _stack(tmp_path, "#!/bin/sh\ncat pods.json\n")
    (tmp_path / "pods.json").write_text(json.dumps({"items": NODES}))
    assert all_offer_gpus(stack, ["node-1"], gpus=2)
    with pytest.raises(NotYet, match=r"they offer {'node-1': 2, 'node-2': 0}"):
        all_offer_gpus(stack, ["node-1", "node-2"], gpus=2)
    check_gpus(stack)
    (tmp_path / "pods.json").write_text(json.dumps({"items": NODES[1:]}))
    with pytest.raises(CannotStart, match="no node has nvidia"):
        check_gpus(stack)


def _pod(name: str, phase: str, *ready: bool) -> object:
    containers = [{"name": f"c{number}", "ready": each} for number, each in enumerate(ready)]
    return {"metadata": {"name": name}, "status": {"phase": phase, "containerStatuses": containers}}


PODS = [
    _pod("slurm-slurmctld-0", "Pending", False),
    _pod("slurm-scheduler-7d4f-x2x9k", "Pending"),
    _pod("slurm-login-0", "Running", True, True),
    _pod("slurm-backup-29401200-8rjzn", "Succeeded", False),
]
# As kubectl 1.35 answers. Without --ignore-errors it prints nothing of the container that failed.
KUBECTL = """#!/bin/sh
case "$*" in
*"-o json"*) cat pods.json ;;
"get pods"*) printf '%s\\n' 'NAME                READY   STATUS' 'slurm-slurmctld-0   0/1     Init:Error' ;;
"get events"*) seq 100 ;;
"logs slurm-slurmctld-0"*" --ignore-errors"*) cat <<'END'
[pod/slurm-slurmctld-0/own-state] install: cannot change owner: Read-only file system
error: container "slurmctld" in pod "slurm-slurmctld-0" is waiting to start: PodInitializing
END
;;
*) echo 'error: the server is currently unable to handle the request' >&2; exit 1 ;;
esac
"""


def _stack(folder: Path, kubectl: str) -> Stack:
    (folder / "kubectl").write_text(kubectl.replace("pods.json", str(folder / "pods.json")))
    (folder / "kubectl").chmod(0o755)
    (folder / "pods.json").write_text(json.dumps({"items": PODS}))
    return Stack(
        suite="trixie",
        kubeconfig=folder / "config",
        bin_dir=folder,
        images={"sunkpy": "sunkpy:1", "slurmctld": "slurmctld:1"},
    )


def test_of_a_release_that_does_not_come_up_the_last_words_are_told(tmp_path: Path) -> None:
    logs = "logs {} --all-containers --prefix --tail=20 --ignore-errors"
    scheduler = logs.format("slurm-scheduler-7d4f-x2x9k")
    assert describe_unready(_stack(tmp_path, KUBECTL), "slurm").splitlines() == [
        "kubectl get pods --output=wide",
        "NAME                READY   STATUS",
        "slurm-slurmctld-0   0/1     Init:Error",
        "kubectl get events --field-selector=type=Warning --sort-by=.lastTimestamp",
        *map(str, range(81, 101)),
        f"kubectl {logs.format('slurm-slurmctld-0')}",
        "[pod/slurm-slurmctld-0/own-state] install: cannot change owner: Read-only file system",
        'error: container "slurmctld" in pod "slurm-slurmctld-0" is waiting to start: PodInitializing',
        f"`kubectl {scheduler} -n slurm` failed with exit code 1: "
        "error: the server is currently unable to handle the request",
    ]


def test_where_even_the_pods_cannot_be_listed_that_is_told(tmp_path: Path) -> None:
    told = describe_unready(_stack(tmp_path, "#!/bin/sh\necho 'connection refused' >&2; exit 1\n"), "slurm")
    assert told == "`kubectl get pods -n slurm -o json` failed with exit code 1: connection refused"


HELM = """#!/bin/sh
[ "$1" = status ] || { echo "$*" >> %s; exit; }
[ -n "%s" ] && echo '{"info": {"status": "%s"}}'
"""


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        ("", ""),
        ("deployed", ""),
        ("failed", ""),
        ("pending-install", "uninstall slurm --namespace slurm --wait\n"),
        ("pending-upgrade", "rollback slurm --namespace slurm --wait\n"),
        ("pending-rollback", "rollback slurm --namespace slurm --wait\n"),
    ],
)
def test_what_a_killed_helm_has_begun_is_taken_back(tmp_path: Path, status: str, asked: str) -> None:
    stack, told, log = _stack(tmp_path, KUBECTL), [], tmp_path / "asked"
    log.touch()
    (tmp_path / "helm").write_text(HELM % (log, status, status))
    (tmp_path / "helm").chmod(0o755)
    take_back_unfinished(stack, "slurm", "slurm", told.append)
    assert log.read_text() == asked
    assert told == ([f"helm release slurm was {status}: taken back"] if asked else [])


def test_at_the_end_stands_how_to_open_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    stack = _stack(tmp_path, KUBECTL)
    told = how_to_use(stack, name="sunkpy")
    assert "sunkpy page -n slurm " in told
    assert f"port-forward svc/slurm-page {PAGE_PORT}:80 " in told
    assert slurm_values(stack)["page"] == {"enabled": True, "url": f"http://localhost:{PAGE_PORT}"}


def test_at_the_end_stands_how_to_remove_this_cluster_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    told = how_to_use(_stack(tmp_path, KUBECTL), name="mine")
    assert told.endswith("\nTo remove it: make clean-cluster CLUSTER=mine")
