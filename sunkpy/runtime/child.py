"""Starts and kills child processes."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Sequence


async def start_child(command: Sequence[str], *, takes_input: bool = False) -> asyncio.subprocess.Process:
    """Start a program with pipes for its output, and with `takes_input` also for its input. If the calling task is
    cancelled meanwhile, the program is started all the same, and killed before CancelledError is raised.

    Otherwise the task might never end: asyncio waits for pipes that are not connected yet, if it is cancelled while it
    connects the pipes of a new process (`BaseSubprocessTransport._try_finish`, seen with Python 3.11).

    Raises:
        OSError: the program could not be started.
    """
    stdin = subprocess.PIPE if takes_input else None
    start = asyncio.create_subprocess_exec(*command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    starting = asyncio.create_task(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await kill_child(await starting)
        raise


async def kill_child(process: asyncio.subprocess.Process) -> None:
    """Kill a child process, unless it has ended, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
