#!/bin/sh
# Hook of mmdebstrap: the kernel of Debian's clouds, unpacked only, as its package wants to build an initrd.
set -e
root=$1
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
folder=$(mktemp -d)
cd "$folder"
name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
apt-get download -q "$name"
dpkg-deb --fsys-tarfile ./*.deb | tar -x --keep-directory-symlink -C "$root"
rm -r "$folder"
cd "$root"
chroot . depmod "$(ls usr/lib/modules)"
