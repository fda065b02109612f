"""The tables of docs/reference/restarts.md, made from the rendered chart: which pods an upgrade replaces when a value
changes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sunkpy.install.upgrade_plan import EFFECTS, restarts
from tests.unit.charts.rendering import render

KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
BASE: Final[Mapping[str, Any]] = {
    "users": {"people": {"ann": {"uid": 2001, "sshKeys": [KEY]}}, "sssd": {"enabled": True, "config": "[sssd]\n"}},
    "login": {"perUser": {"enabled": True, "everybody": True}},
    "compute": {"ssh": {"enabled": True}},
    "scheduler": {"gpuSharing": "plugin"},
    "volumeMetrics": {"when": "always"},
}
CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "images.slurmctld": {"images": {"slurmctld": "r/x:2"}},
    "images.slurmdbd": {"images": {"slurmdbd": "r/x:2"}},
    "images.slurmrestd": {"images": {"slurmrestd": "r/x:2"}},
    "images.slurmd": {"images": {"slurmd": "r/x:2"}},
    "images.login": {"images": {"login": "r/x:2"}},
    "images.sssd": {"images": {"sssd": "r/x:2"}},
    "images.mariadb": {"images": {"mariadb": "r/x:2"}},
    "images.sunkpy": {"images": {"sunkpy": "r/x:2"}},
    "clusterDomain": {"clusterDomain": "k8s.example.com"},
    "slurmConfig.conf": {"slurmConfig": {"conf": {"KillWait": 31}}},
    "slurmConfig.files, for plugstack.conf": {"slurmConfig": {"files": {"plugstack.conf": "optional x.so"}}},
    "slurmConfig.files, for other files": {"slurmConfig": {"files": {"mpi.conf": "PMIxDebug=1"}}},
    "slurmConfig.cgroup": {"slurmConfig": {"cgroup": "disabled"}},
    "slurmConfig.privateTmp, slurmConfig.privatePids": {"slurmConfig": {"privateTmp": False}},
    "topology.source": {"topology": {"source": "auto"}},
    "partitions": {"partitions": {"more": {}}},
    "users.people, users.groups": {"users": {"people": {"bob": {"uid": 2002}}}},
    "users.sssd.config": {"users": {"sssd": {"config": "[sssd]\n# more\n"}}},
    "users.sssd.enabled": {"users": {"sssd": {"enabled": False}}},
    "accounts.wanted": {"accounts": {"wanted": {"accounts": {"chem": {}}}}},
    "accounting.slurmdbd.conf": {"accounting": {"slurmdbd": {"conf": {"PurgeJobAfter": "24month"}}}},
    "login.motd, login.ssh.extra": {"login": {"motd": "Welcome", "ssh": {"extra": "MaxSessions 3"}}},
    "login.ssh.trustedUserCAKeys, .revokedKeys, .principals, .secondFactor": {
        "login": {
            "ssh": {
                "trustedUserCAKeys": [KEY],
                "revokedKeys": [KEY],
                "principals": {"ann": ["a"]},
                "secondFactor": "auth required x.so",
            }
        }
    },
    "login.ssh.existingCASecret, if not <release>-ssh-ca": {"login": {"ssh": {"existingCASecret": "ours"}}},
    "login.resources": {"login": {"resources": {"requests": {"cpu": "1"}}}},
    "login.sets": {"login": {"sets": {"gpu": {}}}},
    "sharedFolders": {"sharedFolders": {"/scratch": {"hostPath": {"path": "/scratch"}}}},
    "login.replicas": {"login": {"replicas": 2}},
    "compute.ssh.enabled": {"compute": {"ssh": {"enabled": False}}},
    "compute.resources, .fabric, .env, .volumes, .services, .scratch": {
        "compute": {"env": [{"name": "A", "value": "b"}]}
    },
    "jobContainers.cacheDays, .cacheGiB": {"jobContainers": {"cacheDays": 7}},
    "nodeSets.<name>.features, .gpu, .reserved": {"nodeSets": {"compute": {"features": ["ib"]}}},
    "nodeSets.<name>.replicas, .updateStrategy": {"nodeSets": {"compute": {"replicas": 3}}},
    "nodeSets, when one is added; nodeSets.<name>.nodeSelector": {
        "nodeSets": {"compute": {}, "new": {"nodeSelector": {"a": "b"}}}
    },
    "hooks.prologTimeoutSeconds": {"hooks": {"prologTimeoutSeconds": 61}},
    "hooks.taskProlog, hooks.taskEpilog": {"hooks": {"taskProlog": "echo export A=b"}},
    "scheduler.access": {"scheduler": {"access": [{"namespaces": ["x"]}]}},
    "syncer.pollSeconds": {"syncer": {"pollSeconds": 2}},
    "keys.existingSlurmSecret": {"keys": {"existingSlurmSecret": "ours"}},
    "keys.existingJwtSecret": {"keys": {"existingJwtSecret": "ours"}},
    "keys.existingSshHostSecret": {"keys": {"existingSshHostSecret": "ours"}},
    "keys.existingComputeSshHostSecret": {"keys": {"existingComputeSshHostSecret": "ours"}},
    "accounting.database.existingSecret": {"accounting": {"database": {"existingSecret": "ours"}}},
    "slurmctld.replicas": {"slurmctld": {"replicas": 2, "persistence": {"accessModes": ["ReadWriteMany"]}}},
    "volumeMetrics": {"volumeMetrics": {"when": "never"}},
    "common": {"common": {"labels": {"team": "x"}}},
    "networkPolicies": {"networkPolicies": {"enabled": False}},
}


def rows() -> Iterator[tuple[str, str]]:
    """Yield each value of CHANGES with the parts whose pods an upgrade replaces when this value changes."""
    before = render("slurm", BASE)
    for value, change in CHANGES.items():
        parts = sorted(
            {each.part for each in restarts(before, render("slurm", merged(BASE, change))) if each.change == "anew"}
        )
        yield f"`{value}`", ", ".join("slurmd pods" if part == "compute" else part for part in parts) or "nothing"


def effects() -> Iterator[tuple[str, str]]:
    """Yield each part with what people notice when its pods are replaced."""
    return (("slurmd pods" if part == "compute" else part, effect) for part, effect in sorted(EFFECTS.items()))


def merged(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with more values over them, merged as helm merges them."""
    made = copy.deepcopy(dict(values))
    for key, value in more.items():
        made[key] = merged(made[key], value) if isinstance(value, dict) and isinstance(made.get(key), dict) else value
    return made
