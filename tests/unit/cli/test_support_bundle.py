"""`sunkpy support-bundle` over HTTP, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import json
import stat
import tarfile

import pytest

from sunkpy.cli import kubectl
from sunkpy.cli.support_bundle import LOG_BYTES
from tests.unit.cli.installed import PART, SECRET, installed
from tests.unit.cli.test_overview import shown

SECRETS = ("hunter2", SECRET, "correct-horse", "MIIEvQIBADANBg", "q8ZrVh3Jm0Wf7sXy2Lp5Tn9Bc4Kd6Ga1EuHiOjMkQrs=")
PEM = f"-----BEGIN PRIVATE KEY-----\n{SECRETS[3]}\n-----END PRIVATE KEY-----"
ENV = [{"name": "PASSWORD", "value": "hunter2"}]
TEMPLATE = {"spec": {"containers": [{"name": "slurmd", "env": ENV, "command": ["sh", "-c", "hunter2"]}]}}


@pytest.fixture
def world():
    """A secret in each place where one may be."""
    world = installed()
    world.api.define("apps/v1", "Deployment", "deployments")
    world.api.define("apps/v1", "StatefulSet", "statefulsets")
    world.api.define("apps/v1", "DaemonSet", "daemonsets")
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"password": "hunter2"})}
    meta = {"namespace": "slurm", "labels": PART, "annotations": applied}
    world.put("deployments", {"metadata": meta | {"name": "slurm-scheduler"}, "spec": {"template": TEMPLATE}})
    world.put("nodesets", {"metadata": meta | {"name": "gpu"}, "spec": {"template": TEMPLATE}, "status": {}})
    conf = f"ClusterName=c1\nStoragePass=correct-horse\nEpilog=/etc/epilog.sh\n# {SECRETS[4]}"
    files = {"slurm.conf": conf, "job_submit.lua": "hunter2"}
    world.put("configmaps", {"metadata": meta | {"name": "slurm-config"}, "data": files})
    for number in (1, 2):
        world.api.change("nodes", "", f"node-{number}", {"metadata": {"annotations": applied}})
    about = {"kind": "Pod", "name": "slurm-scheduler-0", "namespace": "slurm"}
    event = {"metadata": {"name": "e", "namespace": "slurm"}, "involvedObject": about, "reason": "BackOff"}
    world.put("events", event | {"message": f"cannot mount: token={SECRETS[4]}"})
    theirs = {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "team"}, "message": "their data"}
    world.put("events", event | theirs | {"metadata": {"name": "f", "namespace": "team"}})
    world.add_pod("theirs", annotations={"sunkpy.dev/comment": "their data"}, containers=[{"name": "c", "env": ENV}])
    said = f"started\nPASSWORD=hunter2\nAuthorization: Bearer correct-horse\n{PEM}\nkey {SECRETS[4]}\n"
    world.api.logs = {"slurm-scheduler-0": said, "slurm-operator-0": f"{'x' * 999}\n" * 3000 + "died\n"}
    restarted = {"containerStatuses": [{"name": "scheduler", "restartCount": 2}]}
    world.api.change("pods", "slurm", "slurm-scheduler-0", {"status": restarted})
    fields = {"state_reason": "Priority", "name": "train", "script": "hunter2", "comment": "their data"}
    world.slurm.add_job("PENDING", user="ann", environment=["KEY=hunter2"], **fields)
    world.slurm.statistics = {"server_thread_count": 3}
    return world


async def bundle(world, tmp_path, *words, **how):
    file = tmp_path / "bundle.tar.gz"
    code, text = await shown(world, tmp_path, "support-bundle", "--file", str(file), *words, **how)
    with tarfile.open(file) as archive:
        found = {entry.name: archive.extractfile(entry).read() for entry in archive}
    return code, text, {name.removeprefix("bundle/"): content for name, content in found.items()}, file


async def test_all_that_helps_is_in_one_file_that_only_its_owner_reads(world, tmp_path):
    code, text, found, file = await bundle(world, tmp_path, "-n", "slurm", command=kubectl)
    assert (code, text.splitlines()[0]) == (0, f"{file}: {len(found)} files")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"keys: pods need 1 Secret, and none is missing" in found["doctor.txt"]
    assert json.loads(found["sdiag.json"])["figures"] == {"server_thread_count": 3}
    assert json.loads(found["objects/nodesets.json"])[0]["metadata"]["name"] == "gpu"
    assert [each["metadata"]["name"] for each in json.loads(found["objects/events.json"])] == ["e"]
    assert found["conf/slurm.slurm-config/slurm.conf"].decode().splitlines()[::2] == [
        "ClusterName=c1",
        "Epilog=/etc/epilog.sh",
    ]
    assert found["logs/slurm.slurm-scheduler-0.log"].startswith(b"started\n")
    assert found["logs/slurm.slurm-scheduler-0.previous.log"].startswith(b"before: started\n")
    assert json.loads(found["installation.json"])["secrets"] == {"slurm/slurm-jwt-key": True}
    assert {each["name"] for each in json.loads(found["pool.json"])["waiting"]} == {"train", "default/theirs"}


async def test_no_secret_and_nothing_of_people_but_names_is_in_it(world, tmp_path):
    _, _, found, _ = await bundle(world, tmp_path)
    for secret in (*SECRETS, "their data"):
        assert [name for name, content in found.items() if secret.encode() in content] == []


async def test_the_newest_of_each_log_is_read_and_no_secret(world, tmp_path):
    asked = []

    async def handle(request):
        asked.append((request.path, request.headers.get("Accept", ""), request.query.get("tailLines", "")))
        return await answer(request)

    answer, world.api.handle = world.api.handle, handle
    _, _, found, _ = await bundle(world, tmp_path)
    assert all("PartialObjectMetadataList" in accept for path, accept, _ in asked if path.endswith("/secrets"))
    assert {lines for path, _, lines in asked if path.endswith("/log")} == {"2000"}
    assert [content.endswith(b"x\ndied\n\n") for name, content in found.items() if "operator-0.log" in name] == [True]
    assert all(len(content) <= LOG_BYTES + 1 for name, content in found.items() if name.startswith("logs/"))


async def test_what_could_not_be_read_is_named_and_no_file_is_written_over(world, tmp_path):
    world.api.forbidden |= {"events", "deployments", "pods/exec"}
    code, text, found, file = await bundle(world, tmp_path, asks_slurm=False)
    assert (code, "could not be read: not-read.txt" in text) == (0, True)
    unread = found["not-read.txt"].decode()
    assert all(each in unread for each in ("Events: ", "deployments: ", "sdiag: Slurm's side: not asked"))
    code, text = await shown(world, tmp_path, "support-bundle", "--file", str(file))
    assert (code, text) == (1, f"sunkpy: write {file}: File exists\n")
