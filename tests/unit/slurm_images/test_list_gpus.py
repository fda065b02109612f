"""Which GPUs a node offers to Slurm, in which order, and by which names: what `list-gpus` finds in /dev and /proc."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "slurm-images" / "bin" / "list-gpus"


def gpus(
    folder: Path, count: int, *, minors: Sequence[int] = (), cards: Mapping[int, str] = {}, **env: str
) -> subprocess.CompletedProcess[str]:
    """What it says of a node with device files of these minors, where the driver tells of cards: minor to PCI slot."""
    dev, driver = folder / "dev", folder / "driver"
    dev.mkdir(exist_ok=True)
    for minor in minors:
        (dev / f"nvidia{minor}").touch()
    (dev / "nvidiactl").touch()
    for minor, slot in cards.items():
        (driver / slot).mkdir(parents=True)
        text = f"Model: \t H100\nGPU UUID: \t GPU-{minor}\nBus Location: \t {slot}\nDevice Minor: \t {minor}\n"
        (driver / slot / "information").write_text(text)
    env |= {"PATH": os.environ["PATH"], "SUNKPY_DEV": str(dev), "SUNKPY_NVIDIA": str(driver)}
    return subprocess.run([PROGRAM, str(count)], env=env, capture_output=True, text=True, check=False, timeout=30)


def lines(folder: Path, found: subprocess.CompletedProcess[str]) -> list[str]:
    return found.stdout.replace(f"{folder}/dev/", "").splitlines()


def test_lines_are_in_the_order_of_minors_whatever_the_order_on_the_bus(tmp_path: Path):
    cards = {10: "0000:1b:00.0", 9: "0000:3b:00.0", 2: "0000:5b:00.0"}
    found = gpus(tmp_path, 3, minors=[10, 2, 9], cards=cards)
    assert lines(tmp_path, found) == [
        "nvidia2 GPU-2 0000:5b:00.0",
        "nvidia9 GPU-9 0000:3b:00.0",
        "nvidia10 GPU-10 0000:1b:00.0",
    ]
    assert (found.returncode, found.stderr) == (0, "")


def test_a_card_of_which_the_driver_says_nothing_has_no_name(tmp_path: Path):
    assert lines(tmp_path, gpus(tmp_path, 1, minors=[0])) == ["nvidia0 - -"]


def test_a_card_that_fell_off_the_bus_takes_no_other_with_it(tmp_path: Path):
    found = gpus(tmp_path, 3, minors=[0, 2])
    assert lines(tmp_path, found) == ["nvidia0 - -", "nvidia2 - -"]
    assert found.returncode == 0
    assert "offers 3 GPUs, and 2 are here" in found.stderr


def test_slurm_gets_no_more_than_the_kubelet_offers(tmp_path: Path):
    assert lines(tmp_path, gpus(tmp_path, 1, minors=[0, 1])) == ["nvidia0 - -"]


@pytest.mark.parametrize("healthy", ["GPU-0 GPU-2", "x,0000:1b:00.0 x,0000:5b:00.0"], ids=["uuid", "pci"])
def test_only_healthy_cards_are_offered_where_it_is_known_which_are(tmp_path: Path, healthy: str):
    cards = {0: "0000:1b:00.0", 1: "0000:3b:00.0", 2: "0000:5b:00.0"}
    found = gpus(tmp_path, 2, minors=[0, 1, 2], cards=cards, SUNKPY_DEVICES=healthy)
    assert [line.split()[0] for line in lines(tmp_path, found)] == ["nvidia0", "nvidia2"]


def test_a_node_without_any_of_its_cards_fails_with_a_cause(tmp_path: Path):
    found = gpus(tmp_path, 2)
    assert found.returncode == 1
    assert "runtime not set up" in found.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_pretend_cards_have_numbers_that_no_other_device_has(tmp_path: Path):
    found = gpus(tmp_path, 2, SUNKPY_FAKE_GPUS="1", SUNKPY_DEVICES="gpu-a gpu-b,0000:3b:00.0")
    assert lines(tmp_path, found) == ["sunkpy/gpu0 gpu-a -", "sunkpy/gpu1 gpu-b 0000:3b:00.0"]
    numbers = [os.stat(tmp_path / "dev" / "sunkpy" / name).st_rdev for name in ("gpu0", "gpu1")]
    assert [(os.major(number), os.minor(number)) for number in numbers] == [(120, 0), (120, 1)]
    assert "120" not in {line.split()[0] for line in Path("/proc/devices").read_text().splitlines() if line}
