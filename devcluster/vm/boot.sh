#!/bin/bash
# What node.service runs. /disk/settings has the name, the folder (home) and the addresses of this node;
# /disk/daemons has one program a file, each kept running by systemd (daemon@.service).
. /disk/settings
mkdir -p "$home" /var/lib/kubelet/device-plugins /disk/log
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
for each in /disk/daemons/*; do
  systemctl --no-block start "daemon@${each##*/}"
done
