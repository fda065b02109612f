"""Nodes that are machines of their own: a kernel with cgroup v2 in QEMU, emulated, as it needs nothing of this machine.

`base` makes the disk that all of them boot from, `guest` what is one machine's own, `machine` runs them.
"""
