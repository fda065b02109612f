"""Software as a site has it for all nodes, below `~/software`; `~/software/env` makes it known.

Packages of Debian are of the same suite as the images, so that they fit their Python and C library. Packages of Python
are those of python.txt, as `pip install` brings them; what they share with Debian's (torch, numpy, mpi4py)
is Debian's. Only what a slurmd pod lacks is there.

python.txt comes of `uv pip compile --no-annotate --no-header --python-version 3.13` of python.in, less what Debian has.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from demo.stack import Stack
from sunkpy.core import names

PACKAGES: Final = (
    "libopenmpi-dev", "libtorch-dev", "openmpi-bin", "parallel", "pybind11-dev", "python3-dev", "python3-mpi4py",
    "python3-numpy", "python3-torch",
)  # fmt: skip
PYTHON: Final = Path(__file__).with_name("python.txt")
BUILT: Final = ("connection-pool", "deepspeed")
"""Packages without a wheel. They are built here, and have only Python."""
CACHE: Final = Path(os.environ.get("SUNKPY_CACHE", str(Path.home() / ".cache" / "sunkpy"))) / "day"
ENV: Final = """\
S=$HOME/software
L=$S/usr/lib/x86_64-linux-gnu
export PATH=$S/python/bin:$S/usr/bin:$PATH PYTHONPATH=$S/python:$S/usr/lib/python3/dist-packages
export LD_LIBRARY_PATH=$L:$S/usr/lib:$L/blas:$L/lapack:$L/openmpi/lib
export CPLUS_INCLUDE_PATH=$S/usr/include:$(printf '%s:' $S/usr/include/python3.*)$S/usr/include/x86_64-linux-gnu
export LIBRARY_PATH=$L
export OPAL_PREFIX=$S/usr PMIX_PREFIX=$S/usr PRTE_PREFIX=$S/usr USE_LIBUV=0
export PRTE_MCA_mca_base_component_path=$L/prte
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
UNPACK_PYTHON: Final = r"""
set -e
mkdir -p ~/software/python; cd ~/software/python
tar -x
sed -i '1 s,^#!.*python.*,#!/usr/bin/python3,' bin/*
"""


def install(stack: Stack, ssh: Sequence[str]) -> None:
    """Unpack it in the home of who comes in by `ssh`.

    Raises:
        CalledProcessError: apt, uv or the login pod; what it said is on standard error.
    """
    _install_debian(stack, ssh)
    _install_python(ssh)
    subprocess.run([*ssh, "cat > ~/software/env"], input=ENV.encode(), check=True, timeout=60)


def _install_python(ssh: Sequence[str]) -> None:
    ask = "python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'"
    version = subprocess.run([*ssh, ask], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout.strip()
    only = ("--no-deps", "--only-binary", ":all:", *(word for name in BUILT for word in ("--no-binary", name)))
    with tempfile.TemporaryDirectory() as folder:
        where = ("--python-version", version, "--python-platform", "x86_64-manylinux_2_28", "--target", folder)
        uv = [sys.executable, "-m", "uv", "pip", "install", "--system-certs", "--quiet", *only, *where]
        subprocess.run([*uv, "-r", str(PYTHON)], check=True)
        with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as packed:
            subprocess.run([*ssh, UNPACK_PYTHON], stdin=packed.stdout, check=True, timeout=600)


def _install_debian(stack: Stack, ssh: Sequence[str]) -> None:
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
