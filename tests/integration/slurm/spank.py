"""A small plugin of SPANK, built in the root of an image."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

_SOURCE: Final = """
#include <stddef.h>
const char plugin_name[] = "own", plugin_type[] = "spank";
const unsigned int plugin_version = VERSION, spank_plugin_version = 1;
int slurm_spank_init(void *spank, int argc, char *argv[])
{
    return 0;
}
int slurm_spank_task_init(void *spank, int argc, char *argv[])
{
    extern int spank_setenv(void *, const char *, const char *, int);
    return spank_setenv(spank, "OF_PLUGIN", argc ? argv[0] : "loaded", 1);
}
"""


def build_plugin(root: Path, file: str) -> str:
    """The path below the root, of a plugin that tells each task its first argument in OF_PLUGIN."""
    said = subprocess.run(["chroot", root, "slurmd", "-V"], capture_output=True, text=True, check=True).stdout
    major, minor, micro = re.findall(r"\d+", said)[:3]
    version = f"-DVERSION={int(major) << 16 | int(minor) << 8 | int(micro)}"
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    gcc = ["chroot", root, "gcc", "-shared", "-fPIC", version, "-x", "c", "-o", f"/{file}", "-"]
    subprocess.run(gcc, input=_SOURCE, text=True, check=True)
    return file
