"""Settings of the device plugin of a node."""

from __future__ import annotations

from sunkpy.runtime.settings import ProcessSettings


class PluginSettings(ProcessSettings, frozen=True, kw_only=True):
    """Settings of the device plugin, which hands out GPUs as the extended resource `resource`.

    Args:
        schedulers: the scheduler names of the pods that get GPUs.
        control_files: device files that every container with a GPU gets in addition.
        cdi_kind: if set, GPUs are also named to the container runtime, as `<kind>=<uuid>` (CDI); a GPU without a uuid
            by its device file.
        pretend: a number of GPUs that do not exist, for tests without GPUs.
        folder: the kubelet's folder of sockets.
        dev: the node's folder of device files, which the plugin sees below `host`.
        driver: the folder where NVIDIA's driver describes its GPUs.
    """

    schedulers: tuple[str, ...]
    resource: str = "nvidia.com/gpu"
    control_files: tuple[str, ...] = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
    cdi_kind: str = ""
    pretend: int = 0
    folder: str = "/var/lib/kubelet/device-plugins"
    dev: str = "/dev"
    host: str = "/host"
    driver: str = "/proc/driver/nvidia/gpus"
