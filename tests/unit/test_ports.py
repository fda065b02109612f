"""A test that needs a port before a program listens on it takes one that Linux gives to nobody else meanwhile."""

from __future__ import annotations

import ast
import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_ports

TESTS = Path(__file__).resolve().parents[1]


def chosen_and_closed(text: str) -> list[int]:
    """Lines of `with` blocks that only ask Linux for a port of its own range, and close it again."""
    blocks = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.With)]
    lines = [(node.lineno, [ast.unparse(each) for each in node.body]) for node in blocks]
    return [
        line
        for line, body in lines
        if "getsockname" in body[-1] and all("getsockname" in each or ".bind(" in each for each in body)
    ]


def test_free_ports_are_not_those_of_connections_that_go_out():
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    if lowest < 30_000:
        pytest.skip("this machine gives ports below 30,000 to connections that go out")
    found = free_ports(50)
    assert len(set(found)) == 50
    assert not [port for port in found if lowest <= port <= highest]
    with contextlib.ExitStack() as held:
        for port in found:
            held.enter_context(socket.create_server(("127.0.0.1", port)))


def test_a_port_is_given_once_here_and_in_other_runs_of_tests():
    found = free_ports(150)
    assert not set(found) & set(free_ports(150))
    ask = "from tests.ports import free_ports; print(*free_ports(3_000))"
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, cwd=TESTS.parent)
    others = [int(port) for port in run.stdout.split()]
    assert len(set(others)) == 3_000
    assert not set(others) & set(found)


def test_no_test_closes_a_port_and_hopes_that_it_stays_free():
    texts = {path: text for path in sorted(TESTS.rglob("*.py")) if "getsockname" in (text := path.read_text())}
    found = {str(path.relative_to(TESTS)): chosen_and_closed(text) for path, text in texts.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
