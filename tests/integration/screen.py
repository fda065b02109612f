"""An X server that lets nobody open a window, but says so: enough to prove the way from a program to it."""

from __future__ import annotations

import socket
import threading
from typing import Final

ASK: Final = r"""
number=${DISPLAY#*:}; number=${number%.*}
cookie=$(xauth list | tail -n 1 | awk '{ print $3 }' | sed 's/../\\x&/g')
exec 3<> "/dev/tcp/localhost/$((6000 + number))" || exit 1
{ printf 'l\0\13\0\0\0\22\0\20\0\0\0MIT-MAGIC-COOKIE-1\0\0'; printf "$cookie"; } >&3
timeout 10 cat <&3 | tail -c +9
"""
"""A program in bash that connects to its display, and prints why it may not: the first message of the X protocol."""

_REFUSAL: Final = b"seen, and refused"


class Screen:
    """The screen of a person's own machine. `display`: its name, as in DISPLAY."""

    refusal = _REFUSAL.decode()

    def __init__(self) -> None:
        self._socket = next(filter(None, map(_listening, range(70, 99))))
        self.display = f"localhost:{self._socket.getsockname()[1] - 6000}.0"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                client.recv(4096)
                padded = _REFUSAL.ljust(-(-len(_REFUSAL) // 4) * 4)
                client.sendall(bytes([0, len(_REFUSAL), 11, 0, 0, 0, len(padded) // 4, 0]) + padded)

    def close(self) -> None:
        """It is dark."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _listening(number: int) -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", 6000 + number))
    except OSError:
        return None
