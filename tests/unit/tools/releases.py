"""A release that is built, without the layers of its images: what its charts and values are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from types import ModuleType

from tools import oci


def built(
    tool: ModuleType,
    version: str,
    *,
    names: Collection[str],
    suites: tuple[str, ...],
    digest: Callable[[str, str], str],
    platforms: tuple[str, ...] = ("linux/amd64",),
) -> object:
    """The plan of such a release below `tool.ROOT`; `digest` is asked for name and suite of each image. With several
    platforms it is that of the index, and the image of each platform has a digest of only letters f.
    """
    listed = {suite: {name: {} for name in (*names, *tool.SHARED)} for suite in suites}
    (tool.ROOT / "build/images").mkdir(parents=True, exist_ok=True)
    (tool.ROOT / "build/images/images.json").write_text(json.dumps(listed))
    plan = tool.Plan(version=version, commit="", registry="r", suites=suites, platforms=platforms, plain_http=False)
    digests = {}
    for image in tool.images_of(plan):
        digests |= {image.layer_name(platform): f"sha256:{'f' * 64}" for platform in platforms}
        digests[image.published(plan)] = digest(image.name, image.suite)
    entries = [{"digest": value, "annotations": {oci.NAME: name}} for name, value in digests.items()]
    plan.layout.folder.mkdir(parents=True)
    (plan.layout.folder / "index.json").write_text(json.dumps({"manifests": entries}))
    return plan
