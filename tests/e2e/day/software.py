"""Software as a site has it for all nodes: packages of Debian below `~/software`; `~/software/env` makes them known.

Of the same suite as the images, so that it fits their Python and C library. Only what a slurmd pod lacks is there.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from demo.stack import Stack
from sunkpy.core import names

PACKAGES: Final = ("libopenmpi-dev", "openmpi-bin", "parallel", "python3-mpi4py", "python3-torch")
CACHE: Final = Path(os.environ.get("SUNKPY_CACHE", str(Path.home() / ".cache" / "sunkpy"))) / "day"
ENV: Final = """\
S=$HOME/software
L=$S/usr/lib/x86_64-linux-gnu
export PATH=$S/usr/bin:$PATH PYTHONPATH=$S/usr/lib/python3/dist-packages
export LD_LIBRARY_PATH=$L:$S/usr/lib:$L/blas:$L/lapack:$L/openmpi/lib
export OPAL_PREFIX=$S/usr PMIX_PREFIX=$S/usr PRTE_PREFIX=$S/usr USE_LIBUV=0
"""
# Debian builds PyTorch without libuv, for which torchrun asks unless it is told otherwise.
UNPACK: Final = r"""
set -e
rm -rf ~/software; mkdir -p ~/software/debs; cd ~/software
tar -x -C debs
for deb in debs/*.deb; do dpkg-deb -x "$deb" .; done
rm -r debs usr/share/doc usr/share/man usr/lib/libtorch-test
cd usr/lib/python3/dist-packages/torch/distributed
sed -i 's/multi_tenant=True,$/multi_tenant=True, use_libuv=False,/' elastic/rendezvous/*.py
sed -i 's/is_master=False,$/is_master=False, use_libuv=False,/' rendezvous.py
"""


def install(stack: Stack, ssh: Sequence[str]) -> None:
    """Unpack it in the home of who comes in by `ssh`.

    Raises:
        CalledProcessError: apt, or the login pod; what it said is on standard error.
    """
    folder = CACHE / stack.suite
    archives = folder / "cache" / "archives"
    for each in (archives / "partial", folder / "state" / "lists" / "partial"):
        each.mkdir(parents=True, exist_ok=True)
    pod = stack.slurmd_pods()[0].name
    status = stack.kubectl(
        "exec", "-n", stack.namespace, pod, "-c", names.SLURMD_CONTAINER, "--", "cat", "/var/lib/dpkg/status"
    )
    (folder / "status").write_text(status)
    signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    (folder / "sources.list").write_text(f"deb {signed} http://deb.debian.org/debian {stack.suite} main\n")
    (folder / "apt.conf").write_text(
        f'Dir::State "{folder}/state";\nDir::State::status "{folder}/status";\nDir::Cache "{folder}/cache";\n'
        f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::Etc::sourceparts "-";\n'
        'APT::Install-Recommends "false";\nAcquire::Check-Valid-Until "false";\n'
    )
    env = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
    apt = ("apt-get", "-qq", "--yes")
    subprocess.run([*apt, "update"], env=env, check=True)
    subprocess.run([*apt, "install", "--download-only", *PACKAGES], env=env, check=True, stdout=subprocess.DEVNULL)
    debs = sorted(file.name for file in archives.glob("*.deb"))
    with subprocess.Popen(["tar", "-C", str(archives), "-c", *debs], stdout=subprocess.PIPE) as packed:
        subprocess.run([*ssh, UNPACK], stdin=packed.stdout, check=True, timeout=600)
    subprocess.run([*ssh, "cat > ~/software/env"], input=ENV.encode(), check=True, timeout=60)
