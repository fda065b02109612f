"""Finds missing Debian packages, and installs them."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.shell import run
from devcluster.state import default_cache, locked

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Program -> Debian package that has it.
PACKAGES = {
    "runc": "runc",
    "etcd": "etcd-server",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "sysctl": "procps",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
# Programs that slurm-images/build runs -> their Debian packages.
FOR_IMAGES = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
OTHER_PLACES = {"/usr/lib/cni/ptp": ("/opt/cni/bin/ptp", "/usr/libexec/cni/ptp")}


def is_there(program: str) -> bool:
    """True if ``program`` (a name or an absolute path) is installed."""
    if program.startswith("/"):
        return any(Path(path).exists() for path in (program, *OTHER_PLACES.get(program, ())))
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SEARCH_PATH}") is not None


def missing_packages(is_installed: Callable[[str], bool], wanted: Mapping[str, str] = PACKAGES) -> list[str]:
    """Return the missing Debian packages, each once, in a stable order."""
    return sorted({package for program, package in wanted.items() if not is_installed(program)})


def ensure(wanted: Mapping[str, str] = PACKAGES, *, progress: Callable[[str], None]) -> None:
    """Install what is missing through apt; without apt or root, name it exactly."""
    if missing_packages(is_there, wanted):
        with locked(default_cache() / "packages.lock"):  # apt fails when another one runs
            _install(wanted, progress)


def _install(wanted: Mapping[str, str], progress: Callable[[str], None]) -> None:
    missing = missing_packages(is_there, wanted)
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise DevclusterError(f"programs are missing; install them with: apt-get install {' '.join(missing)}")
    progress(f"installing {' '.join(missing)}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], env=env, timeout_s=600)
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], env=env, timeout_s=1800)
    still = missing_packages(is_there, wanted)
    if still:
        raise DevclusterError(
            f"apt-get installed {' '.join(missing)}, yet programs of {' '.join(still)} are not on PATH"
        )
