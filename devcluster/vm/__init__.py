"""Nodes that are virtual machines: QEMU emulates them, with a kernel and cgroup v2 of their own.

`base` makes the disk from which all of them boot, `guest` a machine's own disk, and `machine` runs them.
"""
