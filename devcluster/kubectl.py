"""Runs kubectl on one cluster, for the demo and the tests."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from devcluster.shell import run

T = TypeVar("T")
Json = dict[str, object]


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] = []


class Kubectl:
    """Runs kubectl with a kubeconfig; it uses the program in ``bin_dir``, or the one on PATH."""

    def __init__(self, kubeconfig: Path, bin_dir: Path | None = None) -> None:
        path = os.environ["PATH"] if bin_dir is None else f"{bin_dir}:{os.environ['PATH']}"
        self.env: Mapping[str, str] = {"KUBECONFIG": str(kubeconfig), "PATH": path}

    def __call__(self, *args: str, stdin: str = "", timeout_s: float = 90) -> str:
        """Run kubectl, and return its standard output.

        Raises:
            CommandFailed: kubectl failed; the text has its output.
        """
        return run(["kubectl", *args], stdin=stdin, env=self.env, timeout_s=timeout_s)

    def json(self, *args: str) -> Json:
        """Run `kubectl get … -o json`, and return its output as plain dicts and lists."""
        value: Json = json.loads(self("get", *args, "-o", "json"))
        return value

    def get(self, type_: type[T], *args: str) -> T:
        """Return one object as a type: `get(Pod, "pod", name, "-n", namespace)`."""
        return msgspec.json.decode(self("get", *args, "-o", "json"), type=type_)

    def list(self, type_: type[T], *args: str) -> Sequence[T]:
        """Return all objects of a kind as a type: `list(Pod, "pods", "-l", "app=x")`."""
        found = msgspec.json.decode(self("get", *args, "-o", "json"), type=_List)
        decoder = msgspec.json.Decoder(type_)
        return [decoder.decode(item) for item in found.items]

    def apply(self, *manifests: Mapping[str, object]) -> None:
        """Create or update objects by server-side apply."""
        whole = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(whole))
