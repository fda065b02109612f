"""Ports for programs of tests, which are told where to listen."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator

_FIRST, _BEHIND = 10_000, 30_000
_BLOCK = 100


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens, and which Linux gives to no connection that goes out (ip_local_port_range).

    No other call is given them, here or in another run of tests on this machine, until this process ends.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(_ports)
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            found.append(port)
    return found


def _own_ports() -> Iterator[int]:
    """The ports of blocks that are this process's, one block after the other, in an order that differs each time."""
    blocks = range(_FIRST, _BEHIND, _BLOCK)
    for first in random.sample(blocks, len(blocks)):
        if _claim(first):
            yield from range(first, first + _BLOCK)
    raise OSError("no ports are left for tests on this machine")


def _claim(first: int) -> bool:
    """Take a block, unless another process has it: by a name that Linux gives back when the process has ended."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0sunkpy-tests-ports-{first}")
    except OSError:
        name.close()
        return False
    name.detach()
    return True


_ports = _own_ports()
