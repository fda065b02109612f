from __future__ import annotations

import pytest
import yaml

from tests.families.standin import StandIn


def changed(text: str) -> dict[str, object]:
    document = yaml.safe_load(text)
    StandIn("here", 20).change(document)
    return document


def containers(spec: dict[str, object]) -> list[tuple[str, list[str]]]:
    return [(each["image"], each["command"]) for each in (*spec.get("initContainers", ()), *spec["containers"])]


JOB = """
kind: Job
spec:
  template:
    metadata: {labels: {app: a}}
    spec:
      schedulerName: slurm
      volumes: [{name: scratch, emptyDir: {}}, {name: data, persistentVolumeClaim: {claimName: data}}]
      initContainers:
        - {name: fetch, image: example.com/fetch}
        - {name: side, image: example.com/side, restartPolicy: Always}
      containers:
        - name: main
          image: example.com/work
          args: [--all]
          readinessProbe: {exec: {command: [ready]}}
          envFrom: [{configMapRef: {name: c}}]
          env: [{name: A, value: "1"}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]
          volumeMounts: [{name: scratch, mountPath: /scratch}, {name: data, mountPath: /data}]
          resources: {requests: {cpu: "1"}}
        - {name: shell, image: "docker.io/library/busybox:1", command: [sh, -c, exit 3]}
"""


def test_containers_sleep_but_for_those_of_a_shell():
    spec = changed(JOB)["spec"]["template"]["spec"]
    assert containers(spec) == [
        ("here", ["sleep", "0"]),
        ("here", ["sleep", "infinity"]),
        ("here", ["sleep", "20"]),
        ("here", ["sh", "-c", "exit 3"]),
    ]


def test_what_a_container_asks_stays_and_what_is_not_there_goes():
    template = changed(JOB)["spec"]["template"]
    assert template["metadata"] == {"labels": {"app": "a"}}
    assert template["spec"]["schedulerName"] == "slurm"
    assert template["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    assert template["spec"]["containers"][0] == {
        "name": "main",
        "image": "here",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "20"],
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "resources": {"requests": {"cpu": "1"}},
    }


POD = {"spec": {"containers": [{"name": "main", "image": "example.com/work"}]}}


def test_services_never_end_and_have_no_volumes():
    spec = {"template": POD, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    made = changed(yaml.safe_dump({"kind": "StatefulSet", "spec": spec}))["spec"]
    assert containers(made["template"]["spec"]) == [("here", ["sleep", "infinity"])]
    assert "volumeClaimTemplates" not in made


@pytest.mark.parametrize(
    ("kind", "spec", "lasts"),
    [
        ("MPIJob", {"Launcher": {"template": POD}}, "20"),
        ("MPIJob", {"Worker": {"template": POD}}, "infinity"),
        ("PyTorchJob", {"Worker": {"template": POD}}, "20"),
        ("TFJob", {"PS": {"template": POD}}, "infinity"),
        ("Job", {"tasks": [{"name": "ps", "template": POD}]}, "infinity"),
        ("Job", {"tasks": [{"name": "worker", "template": POD}]}, "20"),
    ],
)
def test_roles_that_serve_others_never_end(kind: str, spec: dict[str, object], lasts: str):
    (role,) = changed(yaml.safe_dump({"kind": kind, "spec": spec}))["spec"].values()
    template = (role[0] if isinstance(role, list) else role)["template"]
    assert containers(template["spec"]) == [("here", ["sleep", lasts])]


def test_programs_that_stand_in_no_pod_sleep_as_well():
    flow = changed("{kind: Workflow, spec: {templates: [{name: a, container: {image: example.com/work}}]}}")
    assert flow["spec"]["templates"][0]["container"]["command"] == ["sleep", "20"]
    train = changed("{kind: TrainJob, spec: {trainer: {numNodes: 3, command: [torchrun]}}}")
    assert train["spec"]["trainer"] == {"numNodes": 3, "command": ["sleep", "20"], "image": "here"}
