"""kubectl of one cluster: the way in which demo and tests ask and change it."""

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
    """Runs kubectl with a kubeconfig; the program is the one in ``bin_dir``, or else the one on PATH."""

    def __init__(self, kubeconfig: Path, bin_dir: Path | None = None) -> None:
        path = os.environ["PATH"] if bin_dir is None else f"{bin_dir}:{os.environ['PATH']}"
        self.env: Mapping[str, str] = {"KUBECONFIG": str(kubeconfig), "PATH": path}

    def __call__(self, *args: str, stdin: str = "", timeout_s: float = 90) -> str:
        """Standard output of kubectl.

        Raises:
            CommandFailed: with what kubectl said.
        """
        return run(["kubectl", *args], stdin=stdin, env=self.env, timeout_s=timeout_s)

    def json(self, *args: str) -> Json:
        """What `kubectl get … -o json` prints, as plain dicts and lists."""
        value: Json = json.loads(self("get", *args, "-o", "json"))
        return value

    def get(self, type_: type[T], *args: str) -> T:
        """One object, typed: `get(Pod, "pod", name, "-n", namespace)`."""
        return msgspec.json.decode(self("get", *args, "-o", "json"), type=type_)

    def list(self, type_: type[T], *args: str) -> Sequence[T]:
        """All objects of a kind, typed: `list(Pod, "pods", "-l", "app=x")`."""
        found = msgspec.json.decode(self("get", *args, "-o", "json"), type=_List)
        decoder = msgspec.json.Decoder(type_)
        return [decoder.decode(item) for item in found.items]

    def apply(self, *manifests: Mapping[str, object]) -> None:
        """Create or update objects, server-side."""
        whole = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(whole))
