"""A registry of images in memory, which counts what is downloaded."""

from __future__ import annotations

import contextlib
import json
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"


class Registry:
    """`images` has the manifest of each NAME:TAG, `downloads` how often each blob was sent."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.images: dict[str, str] = {}
        self.downloads: Counter[str] = Counter()
        self.port = 0

    def push(self, image: str, archive: Path) -> None:
        """The image of an OCI archive, as NAME:TAG."""
        with tarfile.open(archive) as tar:
            files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
            contents = {name: file.read() for name, file in files.items() if file}
        blobs = {name.removeprefix("blobs/").replace("/", ":"): each for name, each in contents.items()}
        self.blobs |= {digest: each for digest, each in blobs.items() if digest.startswith("sha256:")}
        self.images[image] = json.loads(contents["index.json"])["manifests"][0]["digest"]

    def trust(self, root: Path) -> None:
        """Programs of this root may ask it without TLS."""
        conf = root / "etc/containers/registries.conf.d/test.conf"
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text(f'[[registry]]\nlocation = "localhost:{self.port}"\ninsecure = true\n')

    def layer(self, image: str) -> str:
        """The digest of its layer."""
        return str(json.loads(self.blobs[self.images[image]])["layers"][0]["digest"])

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, type and body."""
        if path == "/v2/":
            return 200, "application/json", b"{}"
        name, _, rest = path.removeprefix("/v2/").rpartition("/manifests/")
        if name:
            digest = rest if rest.startswith("sha256:") else self.images.get(f"{name}:{rest}", "")
            kind = _MANIFEST
        else:
            digest, kind = path.rpartition("/")[2], "application/octet-stream"
        if digest in self.blobs:
            return 200, kind, self.blobs[digest]
        error = {"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}
        return 404, "application/json", json.dumps({"errors": [error]}).encode()

    @contextlib.contextmanager
    def serving(self) -> Iterator[Registry]:
        """Serve the registry on a port of loopback."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, kind, body = registry.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    registry.downloads[self.path.rpartition("/")[2]] += 1
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                """A client that hangs up is none."""

        server = Server(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
