"""Programs from a release on an HTTP server of loopback, and from a `go` that only says what it built."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from devcluster.binaries import PRODUCTS, Binaries, Product
from devcluster.release import ARCHITECTURES, SUMS, Release, Unavailable, fetch

PROGRAMS = ("server", "client")
# Says how often it was called, and what was built together.
GO = """#!/bin/sh
[ "$1" = version ] && exec echo go version go1.26.1
echo "$@" >> "${0%/*}/calls"
for package do case $package in *.dev/*) package=${package##*/}; echo built > "$GOBIN/${package%@*}" ;; esac; done
"""
ARCH = ARCHITECTURES.get(platform.machine(), platform.machine())


def archive_of(*programs: str, folder: str = "tool/bin") -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for program in (*programs, "unused"):
            content = f"{program} as released".encode()
            member = tarfile.TarInfo(f"{folder}/{program}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


class Server:
    """Gives `answer` to every GET: of `promised` bytes, or when `mute` not before the end of the test."""

    def __init__(self) -> None:
        self.answer = archive_of(*PROGRAMS)
        self.promised = len(self.answer)
        self.mute = False
        self.ended = threading.Event()
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if outer.mute:
                    outer.ended.wait()
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(outer.promised))
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def end(self) -> None:
        self.ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.end()


@pytest.fixture
def tool(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    """A product with a release on that server; `go` on PATH builds it."""
    go = tmp_path / "path" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    release = Release(
        address=server.url,
        setting="SUNKPY_TOOL_URL",
        archive="v1/tool-{arch}.tar.gz",
        folder="tool/bin",
        sums={ARCH: hashlib.sha512(server.answer).hexdigest()},
    )
    packages = tuple(f"example.dev/cmd/{program}" for program in PROGRAMS)
    return Product(name="tool", version="1", packages=packages, module="pause", release=release)


def ensured(tool: Product, cache: Path) -> tuple[dict[str, str], list[str]]:
    """What is in each program, and what was said."""
    said: list[str] = []
    binaries = Binaries(cache=cache)
    binaries.ensure([tool], progress=said.append)
    folder = binaries.folder(tool)
    assert all(os.access(path, os.X_OK) for path in folder.iterdir()) or "built" in said[-1]
    return {path.name: path.read_text().strip() for path in folder.iterdir()}, said


def test_released_programs_are_downloaded_and_nothing_is_built(server: Server, tool: Product, tmp_path: Path):
    programs, said = ensured(tool, tmp_path)
    assert programs == {"server": "server as released", "client": "client as released"}
    assert server.asked == [f"/v1/tool-{ARCH}.tar.gz"]
    assert [line.split()[0] for line in said] == ["downloading", "downloaded"]


def test_the_address_is_a_setting(
    server: Server, tool: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tool.release is not None
    elsewhere = msgspec.structs.replace(tool.release, address="http://127.0.0.1:1")
    monkeypatch.setenv("SUNKPY_TOOL_URL", f"{server.url}/mirror/")
    programs, _ = ensured(msgspec.structs.replace(tool, release=elsewhere), tmp_path)
    assert programs["server"] == "server as released"
    assert server.asked == [f"/mirror/v1/tool-{ARCH}.tar.gz"]


def test_another_archive_than_the_pinned_one_is_refused_and_the_programs_are_built(
    server: Server, tool: Product, tmp_path: Path
) -> None:
    server.answer = archive_of("server", "client", "more")
    server.promised = len(server.answer)
    programs, said = ensured(tool, tmp_path)
    assert programs == {"server": "built", "client": "built"}
    assert "is refused: its sha512 is " in said[1]
    assert said[1].endswith("; tool 1 is built instead, which takes minutes")


def test_a_server_that_is_away_is_not_waited_for(server: Server, tool: Product, tmp_path: Path):
    server.end()
    programs, said = ensured(tool, tmp_path)
    assert programs == {"server": "built", "client": "built"}
    assert "cannot be downloaded: <urlopen error [Errno 111] Connection refused>; tool 1 is built" in said[1]


def test_an_answer_that_breaks_off_is_no_release(server: Server, tool: Product, tmp_path: Path):
    server.promised += 1
    programs, said = ensured(tool, tmp_path)
    assert programs["server"] == "built"
    assert "it ended after 0 of 0 MiB" in said[1]


def test_a_server_that_says_nothing_or_is_slow_is_given_up(server: Server, tool: Product, tmp_path: Path):
    assert tool.release is not None
    with pytest.raises(Unavailable, match="only 0 of 0 MiB came in 0 s"):
        fetch(tool.release, PROGRAMS, into=tmp_path, progress=print, limit_s=0)
    server.mute = True
    with pytest.raises(Unavailable, match="timed out"):
        fetch(tool.release, PROGRAMS, into=tmp_path, progress=print, silence_s=0.05)


def test_a_machine_without_a_release_builds(server: Server, tool: Product, tmp_path: Path):
    assert tool.release is not None
    programs, said = ensured(
        msgspec.structs.replace(tool, release=msgspec.structs.replace(tool.release, sums={"mips": "0"})), tmp_path
    )
    assert programs["server"] == "built"
    assert "is not released for this machine" in said[1]
    assert server.asked == []


def test_an_archive_may_be_pinned_by_sha256_and_have_its_programs_elsewhere(
    server: Server, tool: Product, tmp_path: Path
) -> None:
    assert tool.release is not None
    sums = {ARCH: hashlib.sha256(server.answer).hexdigest()}
    told = msgspec.structs.replace(tool.release, sums=sums, folder="tool-{arch}/bin")
    server.answer = archive_of(*PROGRAMS, folder=f"tool-{ARCH}/bin")
    programs, said = ensured(msgspec.structs.replace(tool, release=told), tmp_path)
    assert "is refused: its sha256 is " in said[1]
    right = msgspec.structs.replace(told, sums={ARCH: hashlib.sha256(server.answer).hexdigest()})
    server.promised = len(server.answer)
    programs, _ = ensured(msgspec.structs.replace(tool, version="2", release=right), tmp_path)
    assert programs == {"server": "server as released", "client": "client as released"}


@pytest.mark.parametrize(("machine", "name"), [("x86_64", "Linux_x86_64"), ("aarch64", "Linux_arm64")])
def test_archives_may_be_named_after_the_processor(
    server: Server, tool: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, name: str
) -> None:
    assert tool.release is not None
    monkeypatch.setattr(platform, "machine", lambda: machine)
    server.answer = archive_of(*PROGRAMS, folder=f"tool_{name}")
    server.promised = len(server.answer)
    sums = {ARCHITECTURES[machine]: hashlib.sha256(server.answer).hexdigest()}
    names = {"archive": "tool_Linux_{cpu}.tar.gz", "folder": "tool_Linux_{cpu}", "sums": sums}
    programs, _ = ensured(
        msgspec.structs.replace(tool, release=msgspec.structs.replace(tool.release, **names)), tmp_path
    )
    assert programs["server"] == "server as released"
    assert server.asked == [f"/tool_{name}.tar.gz"]


def test_an_archive_without_a_program_is_no_release(server: Server, tool: Product, tmp_path: Path):
    assert tool.release is not None
    elsewhere = msgspec.structs.replace(tool, release=msgspec.structs.replace(tool.release, folder="sbin"))
    programs, said = ensured(elsewhere, tmp_path)
    assert programs["server"] == "built"
    assert "filename 'sbin/server' not found" in said[1]


def test_what_is_of_one_module_is_built_together_but_for_what_was_downloaded(
    server: Server, tool: Product, tmp_path: Path
) -> None:
    others = [Product(name=name, version="3", packages=(f"{name}.dev/{name}",), module="pause") for name in "ab"]
    single = Product(name="c", version="4", packages=("c.dev/c",))
    binaries = Binaries(cache=tmp_path)
    binaries.ensure([others[0], tool, single, others[1]], progress=print)
    assert binaries.missing([*others, tool, single]) == []
    calls = (tmp_path / "path" / "calls").read_text().splitlines()
    assert [[word for word in call.split() if ".dev/" in word] for call in calls] == [
        ["a.dev/a", "b.dev/b"],
        ["c.dev/c@v4"],
    ]
    assert [path.name for path in (tmp_path / "bin").iterdir() if path.name.startswith(".")] == []


RELEASED = [product for product in PRODUCTS if product.release]


@pytest.mark.parametrize("product", RELEASED, ids=lambda product: product.name)
def test_a_release_is_pinned_for_both_processors_in_the_version_that_is_built(product: Product):
    release = product.release
    assert release is not None
    assert product.version in release.archive
    assert release.setting.startswith("SUNKPY_")
    assert sorted(release.sums) == ["amd64", "arm64"]
    assert all(re.fullmatch("[0-9a-f]+", pin) and len(pin) in SUMS for pin in release.sums.values())
