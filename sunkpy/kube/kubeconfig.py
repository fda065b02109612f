"""What a person's kubeconfig says beside how to connect."""

from __future__ import annotations

from pathlib import Path

from kubernetes.aio import config


def current_namespace(kubeconfig: Path | None = None) -> str:
    """Of the current context, as kubectl takes it; `default` where there is none."""
    try:
        _, context = config.list_kube_config_contexts(str(kubeconfig) if kubeconfig is not None else None)
    except config.ConfigException:
        return "default"
    namespace: str = context["context"].get("namespace") or "default"
    return namespace
