"""``python -m devcluster.policies KUBECONFIG NODE=NETNS…``: loads each node's rules when pods, namespaces or policies
change.
"""

import sys
import threading
import time
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from devcluster.api import Api, ApiError
from devcluster.policies.objects import Cluster, Namespace, Pod, Policy
from devcluster.policies.rules import ruleset
from devcluster.shell import CommandFailed, run

T = TypeVar("T")

BACK_OFF_S = 1.0
TOGETHER_S = 0.02
"""Changes within this time lead to one update of the rules."""


class Mirror(Generic[T]):
    """A copy of all objects of a kind, kept by a watch."""

    def __init__(self, api: Api, path: str, kind: type[T], changed: threading.Event) -> None:
        self._api, self._path, self._kind, self._changed = api, path, kind, changed
        self._items: dict[str, T] = {}
        self.is_read = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def items(self) -> list[T]:
        """Return all objects of the kind."""
        return list(self._items.values())

    def _follow(self) -> None:
        while True:
            try:
                self._follow_once()
            except ApiError as error:
                print(f"{error}; trying again in {BACK_OFF_S:g} s")
                time.sleep(BACK_OFF_S)

    def _follow_once(self) -> None:
        answer = self._api.get(self._path)
        listed = msgspec.convert(answer.get("items") or [], list[dict[str, object]])
        self._items = {_key(item): msgspec.convert(item, self._kind) for item in listed}
        self.is_read.set()
        self._changed.set()
        version = msgspec.convert(answer["metadata"], dict[str, object])["resourceVersion"]
        for kind, item in self._api.watch(self._path, str(version)):
            if kind == "ERROR":
                return
            if kind == "DELETED":
                self._items.pop(_key(item), None)
            elif kind != "BOOKMARK":
                self._items[_key(item)] = msgspec.convert(item, self._kind)
            self._changed.set()


def _key(item: dict[str, object]) -> str:
    meta = msgspec.convert(item["metadata"], dict[str, object])
    return f"{meta.get('namespace', '')}/{meta['name']}"


def main(kubeconfig: str, nodes: dict[str, Path]) -> None:
    """Keep the rules of the nodes until killed; the last rules stay loaded."""
    api, changed = Api(Path(kubeconfig)), threading.Event()
    pods = Mirror(api, "/api/v1/pods", Pod, changed)
    namespaces = Mirror(api, "/api/v1/namespaces", Namespace, changed)
    policies = Mirror(api, "/apis/networking.k8s.io/v1/networkpolicies", Policy, changed)
    for each in (pods, namespaces, policies):
        each.is_read.wait()
    loaded: dict[str, str] = {}
    while changed.wait():
        time.sleep(TOGETHER_S)
        changed.clear()
        cluster = Cluster(pods=pods.items(), namespaces=namespaces.items(), policies=policies.items())
        for node, netns in nodes.items():
            text = ruleset(cluster, node)
            if loaded.get(node) == text:
                continue
            try:
                run(["nft", "-f", "-"], stdin=text, netns=netns)
                loaded[node] = text
            except CommandFailed as error:
                print(f"{node}: {error}")


if __name__ == "__main__":
    main(sys.argv[1], {name: Path(path) for name, _, path in (each.partition("=") for each in sys.argv[2:])})
