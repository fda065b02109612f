import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from demo.watch import Watch
from devcluster.waiting import NeverSo
from sunkpy.core.model.objects import Pod

SCRIPT = """
import sys, time
for line in sys.stdin:
    print(line, end="", flush=True)
time.sleep(600)
"""


def _event(type_: str, name: str, **annotations: str) -> str:
    return json.dumps({"type": type_, "object": {"metadata": {"name": name, "annotations": annotations}}}) + "\n"


@pytest.fixture
def stream() -> Iterator[tuple[subprocess.Popen[bytes], Watch[Pod]]]:
    """A program that repeats its input, and a watch of its output."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watch = Watch(process, Pod)
    yield process, watch
    assert process.stdin is not None
    process.stdin.close()
    watch.close()


def _send(process: subprocess.Popen[bytes], *lines: str) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(lines).encode())
    process.stdin.flush()


def test_changes_are_kept_in_order_with_the_time_they_were_seen(
    stream: tuple[subprocess.Popen[bytes], Watch[Pod]],
) -> None:
    process, watch = stream
    before_s = time.time()
    _send(process, _event("ADDED", "a"), _event("ADDED", "b"), _event("DELETED", "a"))
    end = watch.end_of("a", timeout_s=60)
    assert before_s <= end.at_s <= time.time()
    assert [(seen.type, seen.object.name) for seen in watch.seen] == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_change_that_comes_later_is_waited_for(stream: tuple[subprocess.Popen[bytes], Watch[Pod]]) -> None:
    process, watch = stream
    _send(process, _event("ADDED", "a"))
    watch.first(lambda seen: seen.type == "ADDED", timeout_s=60, what="a")
    _send(process, _event("MODIFIED", "a", colour="red"))
    found = watch.first(lambda seen: "colour" in seen.object.annotations, timeout_s=60, what="a coloured pod")
    assert found.type == "MODIFIED"


def test_a_change_that_never_comes_is_told(stream: tuple[subprocess.Popen[bytes], Watch[Pod]]) -> None:
    _, watch = stream
    with pytest.raises(NeverSo, match="the end of a: not seen after 0 s, among 0 changes"):
        watch.end_of("a", timeout_s=0.05)


def test_a_watch_that_breaks_says_why_at_once(stream: tuple[subprocess.Popen[bytes], Watch[Pod]]) -> None:
    process, watch = stream
    _send(process, '{"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410}}\n')
    with pytest.raises(NeverSo, match=r"the end of a: the watch broke: .*410"):
        watch.end_of("a", timeout_s=60)
