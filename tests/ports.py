"""Ports for programs of tests, which are told where to listen."""

from __future__ import annotations

import contextlib
import secrets
import socket


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens, and which Linux gives to no connection that goes out (ip_local_port_range)."""
    found: list[int] = []
    while len(found) < count:
        port = 10_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            found += [port] if port not in found else []
    return found
