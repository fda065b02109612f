"""Makes the cluster's keys, tokens and kubeconfigs.

Each token belongs to a Kubernetes user, so RBAC and the Node authorizer apply to all clients.
"""

import base64
import secrets
from pathlib import Path

import yaml

from devcluster.layout import MAX_MACHINES, MAX_NODES, Layout
from devcluster.shell import run
from devcluster.state import write_atomically

# User and groups per client; the names are those Kubernetes' own bootstrap policy binds.
USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    "coredns": ("devcluster:coredns", ""),
    "provisioner": ("devcluster:provisioner", ""),
    "policies": ("devcluster:policies", ""),
    "kwok": ("devcluster:kwok", "system:masters"),
}


def node_client(node_name: str) -> str:
    """Return the client name of the kubelet on ``node_name``."""
    return f"kubelet-{node_name}"


def all_users(layout: Layout) -> dict[str, tuple[str, str]]:
    """Return client -> (user, groups), for every node that may ever join: the apiserver reads the token file once."""
    nodes = [layout.node(number) for number in range(1, MAX_NODES + 1)]
    machines = [layout.machine(number) for number in range(1, MAX_MACHINES + 1)]
    names = [each.name for each in (*nodes, *machines)]
    kubelets = {node_client(name): (f"system:node:{name}", "system:nodes") for name in names}
    return USERS | kubelets


def token_line(token: str, client: str, user: str, groups: str) -> str:
    """Return a line of a ``--token-auth-file``."""
    return f'{token},{user},{client},"{groups}"'


def write_keys(layout: Layout) -> None:
    """Make the service-account key pair and the token file, if they do not exist."""
    layout.pki.mkdir(parents=True, exist_ok=True)
    layout.pki.chmod(0o700)
    key = layout.pki / "sa.key"
    if not key.exists():
        new = layout.pki / ".sa.key"
        run(["openssl", "genrsa", "-out", str(new), "2048"])
        new.rename(key)
    run(["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(layout.pki / "sa.pub")])
    tokens = layout.pki / "tokens.csv"
    if not tokens.exists():
        lines = [
            token_line(secrets.token_hex(16), client, user, groups)
            for client, (user, groups) in all_users(layout).items()
        ]
        write_atomically(tokens, ("\n".join(lines) + "\n").encode(), mode=0o600)


def read_tokens(csv: str) -> dict[str, str]:
    """Return client -> token of a token file that `write_keys` wrote."""
    rows = [line.split(",") for line in csv.splitlines() if line]
    return {row[2]: row[0] for row in rows}


def certificate(layout: Layout) -> Path:
    """Return the path of the certificate, with its CA, that the apiserver makes for itself on its first start."""
    return layout.pki / "apiserver.crt"


def kubeconfig_path(layout: Layout, client: str) -> Path:
    """Return the path of a client's kubeconfig."""
    return layout.kubeconfig if client == "admin" else layout.pki / f"{client}.conf"


def render_kubeconfig(*, cluster: str, server: str, ca: str, user: str, token: str) -> str:
    """Return the text of a kubeconfig with one context; ``ca`` is PEM."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": base64.b64encode(ca.encode()).decode(),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
            "current-context": cluster,
        },
        sort_keys=False,
    )


def write_kubeconfigs(layout: Layout, node_names: list[str]) -> None:
    """Write the kubeconfigs of all clients and of the given nodes; the apiserver's certificate must exist."""
    ca = certificate(layout).read_text()
    tokens = read_tokens((layout.pki / "tokens.csv").read_text())
    for client in [*USERS, *map(node_client, node_names)]:
        text = render_kubeconfig(cluster=layout.name, server=layout.server, ca=ca, user=client, token=tokens[client])
        path = kubeconfig_path(layout, client)
        if not path.exists() or path.read_text() != text:
            write_atomically(path, text.encode(), mode=0o600)
