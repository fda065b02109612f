"""take-scratch: a slurmd pod begins with empty folders for jobs, on a volume that an earlier pod of the node had."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait

BIN = Path(__file__).resolve().parents[3] / "slurm-images" / "bin"
Pod = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """As the kubelet makes it."""
    for name in ("tmp", "var-tmp", "spool"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def pod(volume: Path) -> Iterator[Pod]:
    """Starts one, which says `began` and runs until its input ends; its processes end with the test."""
    pods: list[subprocess.Popen[str]] = []

    def start(uid: str) -> subprocess.Popen[str]:
        env = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "SUNKPY_SCRATCH": f"{volume}/tmp {volume}/var-tmp",
            "SUNKPY_SPOOL": f"{volume}/spool",
            "SUNKPY_POD_UID": uid,
        }
        argv = ["take-scratch", "bash", "-c", 'echo "began ${SUNKPY_SCRATCH-} on $SUNKPY_TAKEN"; read -r']
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        pods.append(subprocess.Popen(argv, env=env, **pipes, text=True, start_new_session=True))
        return pods[-1]

    yield start
    for each in pods:
        end(each)
        for pipe in (each.stdin, each.stdout, each.stderr):
            assert pipe is not None
            pipe.close()


def end(pod: subprocess.Popen[str]) -> None:
    """As a container does: with all of its processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pod.pid, signal.SIGKILL)
    pod.wait()


def has_begun(pod: subprocess.Popen[str], volume: Path) -> None:
    assert pod.stdout is not None
    assert pod.stdout.readline() == f"began  on {volume}/tmp {volume}/var-tmp\n"


def fill(volume: Path) -> None:
    """As jobs and slurmd do."""
    of_slurm = ("spool/cred_state", "spool/containers/7-0/x", "spool/images/9/i")
    for file in ("tmp/a/b", "tmp/.hidden", "var-tmp/c", *of_slurm):
        (volume / file).parent.mkdir(parents=True, exist_ok=True)
        (volume / file).write_text("")
    (volume / "tmp/link").symlink_to(volume / "spool/images")


def left(volume: Path) -> set[str]:
    """Files and links; what goes meanwhile is no error."""
    found = os.walk(volume)
    return {os.path.relpath(os.path.join(folder, name), volume) for folder, _, names in found for name in names}


def has_only(volume: Path, *names: str) -> None:
    """In the end, and nothing that was put away is left."""

    def is_so() -> bool:
        return left(volume) == {"spool/pod", "spool/images/9/i", *names} and not list(volume.glob("*/.old.*"))

    wait(is_so, timeout_s=20, what="what was left to go")


def test_the_next_pod_finds_of_the_one_before_only_images(volume: Path, pod: Pod):
    first = pod("first")
    has_begun(first, volume)
    fill(volume)
    end(first)
    has_begun(pod("second"), volume)
    has_only(volume)
    assert [oct((volume / name).stat().st_mode)[-4:] for name in ("tmp", "var-tmp")] == ["1777", "1777"]


def test_a_container_that_starts_again_keeps_what_slurmd_knew(volume: Path, pod: Pod):
    first = pod("first")
    has_begun(first, volume)
    fill(volume)
    end(first)
    has_begun(pod("first"), volume)
    has_only(volume, "spool/cred_state", "spool/containers/7-0/x")


def test_nothing_is_touched_before_an_earlier_pod_has_ended(volume: Path, pod: Pod):
    """As after `kubectl delete --force`: it runs on beside its successor."""
    first = pod("first")
    has_begun(first, volume)
    fill(volume)
    before = left(volume)
    second = pod("second")
    assert second.stderr is not None
    said = "take-scratch: another pod still uses the scratch of this node; waiting until it has ended\n"
    assert second.stderr.readline() == said
    assert (left(volume), second.poll()) == (before, None)
    end(first)
    has_begun(second, volume)
    has_only(volume)
