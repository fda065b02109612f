#!/bin/bash
# First program of the system. /disk/settings has the name, the folder (home) and the addresses of this
# node; /disk/daemons has one program a file, each kept running in a cgroup of its own.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. /disk/settings
mount --make-rshared /
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm /dev/mqueue "$home" /var/lib/kubelet/device-plugins
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t mqueue mqueue /dev/mqueue
mount -t cgroup2 cgroup2 /sys/fs/cgroup
read -ra controllers < /sys/fs/cgroup/cgroup.controllers
for each in "${controllers[@]}"; do
  echo "+$each" > /sys/fs/cgroup/cgroup.subtree_control
done
# An overlay cannot lie on an overlay: what containers are made of is on the disk itself.
mount --bind /disk/home "$home"
mount --make-rshared "$home"
# What a machine had in its memory is gone with its power.
rm -rf "$home/run" "$home/cni-state"
mkdir -p "$home/run"
for module in virtio_net virtio_rng veth nf_tables nf_conntrack ip_tables iptable_nat iptable_filter xt_comment; do
  modprobe -q "$module"
done
hostname "$name"
ip link set lo up
ip address add "$ip/16" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
sysctl -qw net.ipv4.ip_forward=1 kernel.panic=-1

keep() {
  mkdir -p "/sys/fs/cgroup/system/$1"
  echo "$BASHPID" > "/sys/fs/cgroup/system/$1/cgroup.procs"
  while :; do
    bash "/disk/daemons/$1" >> "/disk/log/$1" 2>&1 < /dev/null
    sleep 1
  done
}
mkdir -p /disk/log
for each in /disk/daemons/*; do
  keep "${each##*/}" &
done
while :; do
  wait
  sleep 1
done
