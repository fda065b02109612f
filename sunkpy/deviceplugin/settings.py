"""Settings of the device plugin of a node."""

from __future__ import annotations

from sunkpy.runtime.settings import ProcessSettings


class PluginSettings(ProcessSettings, frozen=True, kw_only=True):
    """GPUs of `resource`, for pods of these `schedulers`.

    `control_files`: what every container with a GPU gets besides. `cdi_kind`: name GPUs to the container runtime too,
    as `<kind>=<uuid>`. `pretend`: a number of GPUs that do not exist, for trials. The other keys say where
    things are: `dev` of the node, which is seen below `host`.
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
