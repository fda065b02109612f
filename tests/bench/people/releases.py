"""What helm makes of many users: how long it takes, how large it gets, and which pods one more user replaces."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from demo.person import Key
from tests.bench import report
from tests.bench.people.crowd import Crowd
from tests.unit.charts.rendering import CHARTS, helm, run_helm, with_images

Manifest = dict[str, Any]

_RENDERED_S: Final = 30.0
_KUBERNETES_TAKES: Final = 1_048_576
_AT: Final = "the limit of Kubernetes for one object"


def measure(key: Key, *, people: int, rounds: int) -> list[report.Figure]:
    """Render both charts with `people` users, and charts/slurm with one more."""
    helm()  # builds helm if it is missing, before the time is taken
    crowd, more = Crowd(people, key, each=1), Crowd(people + 1, key, each=1)
    figures: list[report.Figure] = []
    manifests: dict[str, Sequence[Manifest]] = {}
    for chart, values in (("slurm", crowd.values()), ("openldap", crowd.entries())):
        took, text = _render(chart, values, rounds)
        manifests[chart] = _objects(text)
        figures.append(
            report.at_most(
                f"helm template of {chart}, {people} people", report.median(took), bound=_RENDERED_S,
                n=rounds, limited_by="templates are interpreted",
            )
        )  # fmt: skip
        figures += _sizes(f"{chart}, {people} people", manifests[chart], _record(chart, values, text))
    changed = _changed(manifests["slurm"], _objects(_render("slurm", more.values(), 1)[1]))
    figures.append(
        report.at_most(
            "pods made anew by one more person with an account: that of the accounts process", len(changed),
            unit="pods", bound=1, limited_by=", ".join(changed),
        )
    )  # fmt: skip
    return figures


def _render(chart: str, values: Mapping[str, object], rounds: int) -> tuple[list[float], str]:
    took, text = [], ""
    whole = with_images(chart, values)
    for _ in range(rounds):
        began_s = time.monotonic()
        text = run_helm("template", "demo", str(CHARTS / chart), "--namespace", "research", values=whole)
        took.append(time.monotonic() - began_s)
    return took, text


def _objects(text: str) -> list[Manifest]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [manifest for manifest in yaml.load_all(text, Loader=loader) if manifest]


def _sizes(among: str, manifests: Sequence[Manifest], record: int) -> list[report.Figure]:
    biggest = max(manifests, key=_bytes_of)
    what = f"{biggest['kind']} {biggest['metadata']['name']}"
    return [
        report.at_most(f"{among}: {name}", size, unit="bytes", bound=_KUBERNETES_TAKES, limited_by=_AT)
        for name, size in (
            (f"biggest object, {what}", _bytes_of(biggest)),
            ("helm's own record, as it packs it", record),
        )
    ]


def _bytes_of(manifest: Manifest) -> int:
    return len(json.dumps(manifest, ensure_ascii=False).encode())


def _record(chart: str, values: Mapping[str, object], text: str) -> int:
    """Return the bytes of the Secret of a release in helm: chart, values and manifests, compressed, in base64."""
    folder = CHARTS / chart
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    stored = {str(file.relative_to(folder)): base64.b64encode(file.read_bytes()).decode() for file in files}
    release = json.dumps({"config": values, "manifest": text, "chart": stored}).encode()
    return len(base64.b64encode(gzip.compress(release, 9)))


def _changed(before: Sequence[Manifest], after: Sequence[Manifest]) -> list[str]:
    one, other = _templates(before), _templates(after)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _templates(manifests: Sequence[Manifest]) -> dict[str, object]:
    return {
        f"{manifest['kind']} {manifest['metadata']['name']}": manifest["spec"]["template"]
        for manifest in manifests
        if "template" in manifest.get("spec", {})
    }
