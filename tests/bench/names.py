"""What the names of Slurm nodes cost the DNS of the cluster: a real apiserver and CoreDNS, with endpoints of 10,000
slurmd pods.

CoreDNS caches no names of the cluster, as kubeadm configures it, so it computes each answer. Its processor time is
measured, not time by the clock, because the bench uses the same two cores.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from devcluster.binaries import COREDNS, Binaries
from devcluster.layout import CLUSTER_DOMAIN
from devcluster.state import default_cache
from devcluster.waiting import NotYet, wait
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.census import Spent, read
from tests.integration.apiserver import Apiserver, alone
from tests.ports import free_ports

_NAMESPACE, _SERVICE = "slurm", "slurm-compute"
_SEARCHED: Final = (f"{_NAMESPACE}.svc.{CLUSTER_DOMAIN}", f"svc.{CLUSTER_DOMAIN}", CLUSTER_DOMAIN)
"""The domains in which a pod looks for a name first, from the kubelet's resolv.conf."""
_OURS: Final = f"{_SERVICE}.{_NAMESPACE}.svc.{CLUSTER_DOMAIN}"
_A, _PTR, _AAAA, _IN = 1, 12, 28, 1
_OF_A_SLICE: Final = 100
"""Endpoints in an EndpointSlice: the default of kube-controller-manager's --max-endpoints-per-slice."""
_RANKS: Final = 8
_FIRST: Final = ipaddress.IPv4Address("10.128.0.1")


def measure(asked: Asked) -> list[report.Figure]:
    whole, questions = (500, 1_000) if asked.quick else (10_000, 20_000)
    figures = []
    for nodes in (100, whole):
        with TemporaryDirectory(prefix="sunkpy-names-") as folder, alone(Path(folder)) as apiserver:
            figures += [_slices(apiserver, nodes), *_questions(Path(folder), apiserver, nodes, questions)]
    return figures


def _name(number: int) -> str:
    return f"compute-{number // 250:03}-{number % 250:03}"


def _slices(apiserver: Apiserver, nodes: int) -> report.Figure:
    """Make the EndpointSlices that the endpoint slice controller would make of slurmd pods. Return their size."""
    apiserver.make("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True}
    apiserver.make(f"/api/v1/namespaces/{_NAMESPACE}/services", {"metadata": {"name": _SERVICE}, "spec": spec})
    size, path = 0, f"/apis/discovery.k8s.io/v1/namespaces/{_NAMESPACE}/endpointslices"
    for first in range(0, nodes, _OF_A_SLICE):
        metadata = {"name": f"{_SERVICE}-{first}", "labels": {"kubernetes.io/service-name": _SERVICE}}
        endpoints = [_endpoint(number) for number in range(first, min(first + _OF_A_SLICE, nodes))]
        size += len(apiserver.make(path, {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}))
    return report.observed(f"{nodes} nodes: EndpointSlices", size / 2**20, unit="MiB")


def _endpoint(number: int) -> dict[str, object]:
    uid = f"00000000-0000-0000-0000-{number:012}"
    return {
        "addresses": [str(_FIRST + number)],
        "hostname": _name(number),
        "nodeName": f"ip-10-0-{number // 250}-{number % 250}.example.com",
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "name": _name(number), "namespace": _NAMESPACE, "uid": uid},
    }


def _questions(folder: Path, apiserver: Apiserver, nodes: int, questions: int) -> Iterator[report.Figure]:
    numbers = [number * 7919 % nodes for number in range(questions)]
    where = f"{nodes} nodes: CoreDNS"
    with _coredns(folder, apiserver) as dns:
        found = dns.spend([(f"{_name(number)}.{_OURS}", _A) for number in numbers], answers=1)
        no_ipv6 = dns.spend([(f"{_name(number)}.{_OURS}", _AAAA) for number in numbers], answers=0)
        missing = dns.spend(
            [(f"{_name(n)}.{_SEARCHED[n % len(_SEARCHED)]}", (_A, _AAAA)[n % 2]) for n in numbers], answers=0
        )
        back = dns.spend([((_FIRST + number).reverse_pointer, _PTR) for number in numbers], answers=1)
        outside = dns.spend([(f"example-{number}.com.{_OURS}", _A) for number in numbers], answers=0)
        each = (
            ("a name among those of the nodes", found),
            ("… its IPv6 address, which is not there", no_ipv6),
            ("a name where the kubelet lets a pod look first", missing),
            ("an address", back),
            ("example.com among the names of the nodes", outside),
        )
        for what, cpu_s in each:
            yield report.observed(f"{where}, {what}", cpu_s * 1e6, unit="µs of a core", n=questions)
        lookup_s = found + no_ipv6 + 2 * len(_SEARCHED) * missing
        lookups = nodes * _RANKS
        what = f"{where}, {_RANKS} ranks of each node look up one name: {lookups * 2 * (1 + len(_SEARCHED))} questions"
        yield report.observed(what, lookups * lookup_s, unit="s of a core")
        yield report.observed(f"{where}, memory", dns.spent().memory_mib, unit="MiB")


class _Dns:
    def __init__(self, port: int, metrics: int) -> None:
        self._metrics = f"http://127.0.0.1:{metrics}/metrics"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(5)
        self._socket.connect(("127.0.0.1", port))

    def spent(self) -> Spent:
        with urllib.request.urlopen(self._metrics, timeout=5) as answer:
            return read(answer.read().decode())

    def knows(self, name: str) -> bool:
        """True if CoreDNS has an address for this name by now."""
        try:
            return self.ask(name, _A) == 1
        except OSError as error:
            raise NotYet(str(error)) from error

    def spend(self, questions: Sequence[tuple[str, int]], *, answers: int) -> float:
        """Ask the questions. Return the processor seconds for each question, which must have `answers` answers."""
        before = self.spent().cpu_s
        for name, kind in questions:
            if (found := self.ask(name, kind)) != answers:
                raise RuntimeError(f"{name}: {found} answers in place of {answers}")
        return (self.spent().cpu_s - before) / len(questions)

    def ask(self, name: str, kind: int) -> int:
        """Return how many answers a question has (RFC 1035, section 4)."""
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        header = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0)
        self._socket.send(header + labels + b"\0" + struct.pack(">2H", kind, _IN))
        (count,) = struct.unpack(">H", self._socket.recv(4096)[6:8])
        return int(count)


@contextmanager
def _coredns(folder: Path, apiserver: Apiserver) -> Iterator[_Dns]:
    """Yield a CoreDNS with kubeadm's configuration for the cluster's domain, once it knows all endpoints."""
    binaries = Binaries(default_cache())
    binaries.ensure([COREDNS], progress=print)
    port, metrics = free_ports(2)
    corefile = folder / "Corefile"
    corefile.write_text(f""".:{port} {{
    bind 127.0.0.1
    errors
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {apiserver.kubeconfig("admin")}
        pods insecure
        ttl 30
    }}
    prometheus 127.0.0.1:{metrics}
    cache 30 {{
        disable success {CLUSTER_DOMAIN} in-addr.arpa
        disable denial {CLUSTER_DOMAIN} in-addr.arpa
    }}
}}
""")
    apiserver.start(str(binaries.coredns / "coredns"), f"-conf={corefile}")
    try:
        dns = _Dns(port, metrics)
        wait(lambda: dns.knows(f"{_name(0)}.{_OURS}"), timeout_s=60, what="an answer of CoreDNS")
        yield dns
    finally:
        apiserver.end("coredns")
