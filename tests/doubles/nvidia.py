"""What NVIDIA's driver writes of a card, as version 580.159.04 did of an H100."""

from __future__ import annotations


def information(*, minor: int, uuid: str, pci: str) -> str:
    """The file /proc/driver/nvidia/gpus/<PCI address>/information."""
    return (
        "Model: \t\t NVIDIA H100 80GB HBM3\n"
        "IRQ:   \t\t 41\n"
        f"GPU UUID: \t {uuid}\n"
        "Video BIOS: \t 96.00.da.00.0c\n"
        "Bus Type: \t PCIe\n"
        "DMA Size: \t 52 bits\n"
        "DMA Mask: \t 0xfffffffffffff\n"
        f"Bus Location: \t {pci}\n"
        f"Device Minor: \t {minor}\n"
        "GPU Firmware: \t 580.159.04\n"
        "GPU Excluded:\t No\n"
    )
