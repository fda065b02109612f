"""A container of ours as a process: a root that cannot be written to, volumes bound into it, no new rights."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_ENTER = """\
set -e
cd "$1"; image=$2 rights=$3 program=$4; shift 4
mount --bind "$image" root && mount -o remount,bind,ro root
mount -t proc proc root/proc
mount --bind /dev root/dev && mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts root/dev/pts
for each in "$@"; do
  IFS=: read -r from to mode <<< "$each"
  [ -e "root/$to" ] || mkdir -p "root/$to"
  if [ "$from" = tmpfs ]; then mount -t tmpfs -o mode=0777 tmpfs "root/$to"; continue; fi
  mount --bind "$from" "root/$to"
  [ "$mode" != ro ] || mount -o remount,bind,ro "root/$to"
done
hostname localhost
exec chroot root setpriv $rights --no-new-privs tini -- "/usr/local/bin/$program"
"""


def start(
    folder: Path,
    program: str,
    *,
    mounts: Sequence[str],
    rights: Sequence[str],
    env: Mapping[str, str],
    image: str = "root",
) -> subprocess.Popen[bytes]:
    """The program of an image that is unpacked in the folder `image` there; what it says goes to `<folder>/log`.

    `mounts`: FROM:TO[:ro], FROM below the folder or tmpfs. `rights`: words of setpriv(1).
    """
    namespaces = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
    enter = ["bash", "-c", _ENTER, "-", str(folder), image, " ".join(rights), program, *mounts]
    environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **env}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*namespaces, *enter], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def project(volume: Path, data: Mapping[str, str]) -> None:
    """The files of a volume are those of a ConfigMap or Secret from now on, as when a kubelet has looked."""
    for file in volume.iterdir():
        if file.name not in data:
            file.unlink()
    for name, text in data.items():
        part = volume.with_name(f"{volume.name}.part")
        part.write_text(text)
        part.rename(volume / name)
