"""What helm makes of many users: how long it takes, and how large it gets."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Mapping
from typing import Any, Final

import yaml

from demo.person import Key
from tests.bench import report
from tests.bench.people.crowd import Crowd
from tests.unit.charts.rendering import CHARTS, helm, run_helm, with_images

_RENDERED_S: Final = 30.0
_KUBERNETES_TAKES: Final = 1_048_576
_AT: Final = "the limit of Kubernetes for one object"


def measure(key: Key, *, people: int, rounds: int) -> list[report.Figure]:
    """Render both charts with `people` users."""
    helm()  # builds helm if it is missing, before the time is taken
    crowd, figures = Crowd(people, key, each=1), list[report.Figure]()
    for chart, values in (("slurm", crowd.values()), ("openldap", crowd.entries())):
        took_s, text = _render(chart, values, rounds)
        among = f"{chart}, {people} people"
        figures.append(report.at_most(f"helm template of {among}", report.median(took_s), bound=_RENDERED_S, n=rounds))
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        biggest = max(filter(None, yaml.load_all(text, Loader=loader)), key=_bytes_of)
        what = f"biggest object, {biggest['kind']} {biggest['metadata']['name']}"
        sizes = {what: _bytes_of(biggest), "helm's own record, as it packs it": _record(chart, values, text)}
        for what, size in sizes.items():
            figure = f"{among}: {what}"
            figures.append(report.at_most(figure, size, unit="bytes", bound=_KUBERNETES_TAKES, limited_by=_AT))
    return figures


def _render(chart: str, values: Mapping[str, object], rounds: int) -> tuple[list[float], str]:
    took_s, text, whole = [], "", with_images(chart, values)
    for _ in range(rounds):
        began_s = time.monotonic()
        text = run_helm("template", "demo", str(CHARTS / chart), "--namespace", "research", values=whole)
        took_s.append(time.monotonic() - began_s)
    return took_s, text


def _bytes_of(manifest: dict[str, Any]) -> int:
    return len(json.dumps(manifest, ensure_ascii=False).encode())


def _record(chart: str, values: Mapping[str, object], text: str) -> int:
    """Return the bytes of the Secret of a release in helm: chart, values and manifests, compressed, in base64."""
    folder = CHARTS / chart
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    stored = {str(file.relative_to(folder)): base64.b64encode(file.read_bytes()).decode() for file in files}
    release = json.dumps({"config": values, "manifest": text, "chart": stored}).encode()
    return len(base64.b64encode(gzip.compress(release, 9)))
