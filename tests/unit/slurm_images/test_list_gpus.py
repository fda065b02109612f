"""Which GPUs a node offers to Slurm, in which order, and by which names: what `list-gpus` finds in /dev and /proc."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.doubles.nvidia import information

PROGRAM = Path(__file__).parents[3] / "slurm-images" / "bin" / "list-gpus"


def gpus(
    folder: Path, gres: int | str, *, minors: Sequence[int] = (), cards: Mapping[int, str] = {}, **env: str
) -> subprocess.CompletedProcess[str]:
    """What it says of a node with device files of these minors, where the driver tells of cards: minor to PCI slot."""
    dev, driver = folder / "dev", folder / "driver"
    dev.mkdir(exist_ok=True)
    for minor in minors:
        (dev / f"nvidia{minor}").touch()
    (dev / "nvidiactl").touch()
    for minor, slot in cards.items():
        (driver / slot).mkdir(parents=True)
        (driver / slot / "information").write_text(information(minor=minor, uuid=f"GPU-{minor}", pci=slot))
    known = {"SUNKPY_DEV": dev, "SUNKPY_NVIDIA": driver, "SUNKPY_NVIDIA_CAPABILITIES": folder / "capabilities"}
    env = {"PATH": os.environ["PATH"]} | env | {name: str(path) for name, path in known.items()}
    return subprocess.run(
        [PROGRAM, gres if isinstance(gres, str) else f"gpu:{gres}"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def lines(folder: Path, found: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.removeprefix("- ") for line in found.stdout.replace(f"{folder}/dev/", "").splitlines()]


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


def test_a_card_that_nobody_has_used_yet_has_no_uuid(tmp_path: Path):
    """Without persistence mode the driver reads it when the card is first opened: several would have the same."""
    card = tmp_path / "driver" / "0000:1b:00.0"
    card.mkdir(parents=True)
    uuid = "GPU-????????-????-????-????-????????????"
    (card / "information").write_text(information(minor=0, uuid=uuid, pci="0000:1b:00.0"))
    assert lines(tmp_path, gpus(tmp_path, 1, minors=[0])) == ["nvidia0 - 0000:1b:00.0"]


def test_a_card_that_fell_off_the_bus_takes_no_other_with_it(tmp_path: Path):
    found = gpus(tmp_path, 3, minors=[0, 2])
    assert lines(tmp_path, found) == ["nvidia0 - -", "nvidia2 - -"]
    assert found.returncode == 0
    assert "offers 3 GPUs of type -, and only 2 are here" in found.stderr


def test_slurm_gets_no_more_than_the_kubelet_offers(tmp_path: Path):
    assert lines(tmp_path, gpus(tmp_path, 1, minors=[0, 1])) == ["nvidia0 - -"]


@pytest.mark.parametrize("healthy", ["GPU-0 GPU-2", "x,0000:1b:00.0 x,0000:5b:00.0"], ids=["uuid", "pci"])
def test_only_healthy_cards_are_offered_where_it_is_known_which_are(tmp_path: Path, healthy: str):
    cards = {0: "0000:1b:00.0", 1: "0000:3b:00.0", 2: "0000:5b:00.0"}
    found = gpus(tmp_path, 2, minors=[0, 1, 2], cards=cards, SUNKPY_DEVICES=healthy)
    assert [line.split()[0] for line in lines(tmp_path, found)] == ["nvidia0", "nvidia2"]


def test_a_card_without_a_uuid_is_no_device_of_which_the_driver_tells_none(tmp_path: Path):
    found = gpus(tmp_path, 1, minors=[0, 1], SUNKPY_DEVICES="-,0000:1b:00.0")
    assert (found.returncode, found.stdout) == (1, "")


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_pretend_cards_of_several_types_are_counted_on(tmp_path: Path):
    devices = "gpu-a gpu-b;mig-a,0000:3b:00.0"
    found = gpus(tmp_path, "gpu:a100:2,gpu:1g.5gb:1", SUNKPY_FAKE_GPUS="1", SUNKPY_DEVICES=devices)
    assert lines(tmp_path, found) == [
        "a100 sunkpy/gpu0 gpu-a -",
        "a100 sunkpy/gpu1 gpu-b -",
        "1g.5gb sunkpy/gpu2 mig-a 0000:3b:00.0",
    ]


CARDS = {0: "0000:1b:00.0", 1: "0000:3b:00.0", 2: "0000:5b:00.0"}


def test_lines_are_grouped_by_types_in_the_order_in_which_slurm_counts_them(tmp_path: Path):
    found = gpus(
        tmp_path, "gpu:l40s:1,gpu:a100:2", minors=[0, 1, 2], cards=CARDS, SUNKPY_DEVICES="GPU-1;GPU-2 x,0000:1b:00.0"
    )
    assert [line.split()[:3] for line in lines(tmp_path, found)] == [
        ["l40s", "nvidia1", "GPU-1"],
        ["a100", "nvidia0", "GPU-0"],
        ["a100", "nvidia2", "GPU-2"],
    ]


def test_cards_of_which_nobody_says_the_type_are_given_to_none(tmp_path: Path):
    found = gpus(tmp_path, "gpu:l40s:1,gpu:a100:1", minors=[0, 1], cards=CARDS)
    assert (found.returncode, found.stdout) == (1, "")
    assert "may be of several types of gpu:l40s:1,gpu:a100:1: " in found.stderr
    assert "dev/nvidia0. Only a DRA driver says which: set gpu.driver" in found.stderr


NVIDIA_SMI = """\
#!/bin/bash
[ "$1" = -q ] || {
cat << 'END'
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
  MIG 3g.20gb     Device  0: (UUID: MIG-large)
  MIG 1g.5gb      Device  1: (UUID: MIG-small-b)
  MIG 1g.5gb      Device  2: (UUID: MIG-small-a)
  MIG 1g.5gb+me   Device  3: (UUID: MIG-media)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-0)
END
exit; }
cat << 'END'
==============NVSMI LOG==============
Attached GPUs                             : 2
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Mode
        Current                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 0
        Device Attributes
            Shared
                Multiprocessor count      : 42
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 11
        Compute Instance ID               : 0
    MIG Device
        Index                             : 2
        GPU Instance ID                   : 9
        Compute Instance ID               : 0
    MIG Device
        Index                             : 3
        GPU Instance ID                   : 13
        Compute Instance ID               : 0
    GPU UUID                              : GPU-1
    Minor Number                          : 1
    Processes
        GPU instance ID                   : N/A
GPU 00000000:1B:00.0
    MIG Mode
        Current                           : Disabled
    GPU UUID                              : GPU-0
    Minor Number                          : 0
END
"""


@pytest.fixture
def sliced(tmp_path: Path) -> str:
    """PATH to a program that tells of a card with four slices and one with none."""
    for gi in (2, 9, 11, 13):
        instance = tmp_path / "capabilities" / "gpu1" / "mig" / f"gi{gi}"
        (instance / "ci0").mkdir(parents=True)
        for at, folder in enumerate((instance, instance / "ci0")):
            (folder / "access").write_text(f"DeviceFileMinor: {gi * 10 + at}\nDeviceFileMode: 292\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    return f"{tmp_path}/bin:{os.environ['PATH']}"


def files(gi: int) -> str:
    return f"nvidia1,nvidia-caps/nvidia-cap{gi}0,nvidia-caps/nvidia-cap{gi}1"


@pytest.mark.parametrize(
    ("gres", "devices", "found"),
    [
        (
            "gpu:1g.5gb:2",
            "",
            [f"1g.5gb {files(9)} MIG-small-a 0000:3b:00.0", f"1g.5gb {files(11)} MIG-small-b 0000:3b:00.0"],
        ),
        ("gpu:1g.5gb.me:1", "", [f"1g.5gb.me {files(13)} MIG-media 0000:3b:00.0"]),
        (
            "gpu:3g.20gb:1,gpu:a100:1",
            "",
            [f"3g.20gb {files(2)} MIG-large 0000:3b:00.0", "a100 nvidia0 GPU-0 0000:1b:00.0"],
        ),
        ("gpu:small:1", "MIG-small-b,0000:3b:00.0", [f"small {files(11)} MIG-small-b 0000:3b:00.0"]),
        (
            "gpu:a100:1,gpu:large:1",
            "GPU-0;MIG-large",
            ["a100 nvidia0 GPU-0 0000:1b:00.0", f"large {files(2)} MIG-large 0000:3b:00.0"],
        ),
    ],
)  # fmt: skip
def test_slices_are_offered_by_their_profile_or_by_name(
    tmp_path: Path, sliced: str, gres: str, devices: str, found: list[str]
):
    has = gpus(tmp_path, gres, minors=[0, 1], cards={0: CARDS[0], 1: CARDS[1]}, PATH=sliced, SUNKPY_DEVICES=devices)
    assert (has.stderr, lines(tmp_path, has)) == ("", found)


def test_a_card_that_has_slices_is_not_offered_whole(tmp_path: Path, sliced: str):
    found = gpus(tmp_path, 2, minors=[0, 1], cards={0: CARDS[0], 1: CARDS[1]}, PATH=sliced)
    assert lines(tmp_path, found) == ["nvidia0 GPU-0 0000:1b:00.0"]
    assert "offers 2 GPUs of type -, and only 1 are here" in found.stderr
