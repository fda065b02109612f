#!/bin/busybox sh
# First program of a virtual machine, in memory: /dev/vda is the system, for all machines and not to be changed;
# /dev/vdb is the machine's own disk, with what it changes of the system in `upper`.
b=/bin/busybox
$b mkdir -p /proc /dev /lower /disk /new
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev 2>/dev/null
$b insmod /overlay.ko
$b insmod /virtio_blk.ko
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do $b sleep 0.1; done
$b mount -t ext4 -o ro /dev/vda /lower
$b mount -t ext4 /dev/vdb /disk
$b mkdir -p /disk/upper /disk/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/disk/upper,workdir=/disk/work overlay /new
$b mkdir -p /new/disk
$b mount --move /disk /new/disk
$b mount --move /dev /new/dev
$b mount --move /proc /new/proc
exec $b switch_root /new /usr/lib/systemd/systemd
