"""An installation of both charts, as the apiserver shows it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from sunkpy.core import names
from sunkpy.core.model.times import rfc3339, rfc3339_micro
from tests.unit.scheduler.world import World

SECRET = "c2VjcmV0LWtleQ=="
PART = {"app.kubernetes.io/part-of": "sunkpy"}
KINDS = {
    "v1": ("ConfigMap", "Service", "Secret"),
    "sunkpy.dev/v1alpha1": ("NodeSet",),
    "admissionregistration.k8s.io/v1": ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    "apps/v1": ("DaemonSet", "Deployment", "StatefulSet"),
    "discovery.k8s.io/v1": ("EndpointSlice",),
    "batch/v1": ("CronJob", "Job"),
}


def plural(kind):
    return f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"


def ready(is_so=True):
    return [{"type": "Ready", "status": "True" if is_so else "False"}]


def our_pod(component, *, name="slurm", namespace="slurm", **status):
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": "slurm",
        "app.kubernetes.io/component": component,
    }
    key = {"name": "keys", "secret": {"secretName": "slurm-jwt-key"}}
    env = [{"name": "PASSWORD", "value": "hunter2"}]
    containers = [{"name": component, "image": "registry/sunkpy:0.1.0", "env": env}]
    return {
        "metadata": {"name": f"slurm-{component}-0", "namespace": namespace, "labels": labels},
        "spec": {"containers": containers, "volumes": [key] if component == "scheduler" else []},
        "status": {"phase": "Running", "conditions": ready()} | status,
    }


def deployment(component, *, name="slurm", namespace="slurm", wanted=1, ready=1):
    meta = our_pod(component, name=name, namespace=namespace)["metadata"]
    meta |= {"name": f"slurm-{component}", "labels": meta["labels"] | PART}
    return {"metadata": meta, "spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}


def made_before(hours):
    """The time, as in the name of a backup, and as Kubernetes writes it."""
    when = datetime.now(UTC) - timedelta(hours=hours)
    return f"{when:%Y%m%dT%H%M%SZ}", rfc3339(when)


def of_backup(component):
    return {
        "app.kubernetes.io/name": "slurm",
        "app.kubernetes.io/instance": "slurm",
        "app.kubernetes.io/component": component,
    }


def cron_job(component="backup", *, succeeded=1.0, **spec):
    """A CronJob that makes backups; its last success was `succeeded` hours ago."""
    status = {"lastSuccessfulTime": made_before(succeeded)[1]} if succeeded is not None else {}
    container = {"name": "backup", "args": ["/usr/local/bin/backup-mariadb"], "env": [{"name": "A", "value": "b"}]}
    job = {"spec": {"backoffLimit": 3, "template": {"metadata": {"labels": of_backup(component)}}}}
    job["spec"]["template"]["spec"] = {"restartPolicy": "Never", "containers": [container]}
    meta = {"name": f"slurm-{component}", "namespace": "slurm", "labels": of_backup(component)}
    meta |= {"annotations": {names.ANNOTATION_LATE_AFTER: "7200"}, "creationTimestamp": made_before(500)[1]}
    spec = {"schedule": "17 3 * * *", "jobTemplate": job} | spec
    return {"metadata": meta, "spec": spec, "status": status}


def run_of_backup(name="run-1", component="backup", *, ended=1.0, code=0, job="", message=None, **report):
    """The pod of a backup that ended `ended` hours ago, with its last message."""
    stamp, at = made_before(ended)
    said = {
        "name": "slurm_acct_db",
        "type": "sql.gz",
        "size": 8 << 30,
        "free": 3 << 30,
        "files": [[stamp, 5 << 20, "both"]],
    }
    text = json.dumps(said | report) if message is None else message
    end = {"exitCode": code, "finishedAt": at, "message": text}
    labels = of_backup(component) | ({"batch.kubernetes.io/job-name": job} if job else {})
    status = {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "backup", "state": {"terminated": end}}],
    }
    return {"metadata": {"name": name, "namespace": "slurm", "labels": labels}, "status": status}


def installed():
    """Two nodes, a scheduler that leads, and its operator."""
    world, now = World(), rfc3339_micro(datetime.now(UTC))
    for version, kinds in KINDS.items():
        for kind in kinds:
            world.api.define(version, kind, plural(kind), namespaced="Policy" not in kind)
    for number in (1, 2):
        world.add_node(number)
        world.api.change("nodes", "", f"node-{number}", {"metadata": {"labels": {names.LABEL_NODESET: "gpu"}}})
        world.api.change("pods", "slurm", f"slurmd-{number}", {"status": {"conditions": ready()}})
        world.put("leases", _lease(f"node-{number}", "kube-node-lease", now))
    world.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}, "status": {}})
    world.put("pods", our_pod("scheduler"))
    world.put("pods", our_pod("operator", name="sunkpy", namespace="sunkpy-system"))
    world.put("deployments", deployment("scheduler"))
    world.put("deployments", deployment("operator", name="sunkpy", namespace="sunkpy-system"))
    world.put("leases", _lease("slurm-scheduler", "slurm", now))
    world.put("secrets", {"metadata": {"name": "slurm-jwt-key", "namespace": "slurm"}, "data": {"jwt.key": SECRET}})
    world.put("validatingadmissionpolicies", {"metadata": {"name": "slurm-notes", "labels": PART}})
    denies = {"policyName": "slurm-notes", "validationActions": ["Deny"]}
    world.put(
        "validatingadmissionpolicybindings", {"metadata": {"name": "slurm-notes", "labels": PART}, "spec": denies}
    )
    world.put("cronjobs", cron_job())
    world.put("pods", run_of_backup())
    of_scheduler = PART | {"app.kubernetes.io/component": "scheduler"}
    meta = {"name": "slurm-hooks", "namespace": "slurm"}
    world.put(
        "services", {"metadata": meta | {"labels": of_scheduler}, "spec": {"ports": [{"name": "hooks", "port": 8000}]}}
    )
    of_service = {"kubernetes.io/service-name": "slurm-hooks"}
    world.put(
        "endpointslices",
        {"metadata": meta | {"labels": of_service}, "endpoints": [{"conditions": {"ready": True}}]},
    )
    return world


def _lease(name, namespace, now):
    spec = {"holderIdentity": f"{name}-0", "leaseDurationSeconds": 12, "renewTime": now}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
