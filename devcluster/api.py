"""A small client of the Kubernetes API, on the standard library alone, for the start of a cluster."""

import base64
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import yaml

from devcluster.errors import DevclusterError


class ApiError(DevclusterError):
    """The apiserver answered with another status than 2xx. ``status``: the HTTP status; 0 if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """A client of one apiserver, one connection per request; no retries."""

    def __init__(self, kubeconfig: Path, *, timeout_s: float = 10) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.host = urllib.parse.urlsplit(cluster["server"]).netloc
        self.token = config["users"][0]["user"]["token"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=ca)
        self.timeout_s = timeout_s

    def request(self, method: str, path: str, body: object = None, *, content_type: str = "application/json") -> bytes:
        """Send one request and return the body of the answer. Raises ApiError unless the status is 2xx."""
        connection = self._connect(self.timeout_s)
        try:
            response = self._send(connection, method, path, body, content_type)
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"{method} https://{self.host}{path}: {error}; is the apiserver running?") from error
        finally:
            connection.close()

    def get(self, path: str) -> dict[str, object]:
        """Return the decoded answer to a GET."""
        answer: dict[str, object] = json.loads(self.request("GET", path))
        return answer

    def items(self, path: str) -> list[dict[str, object]]:
        """Return the objects of the collection at a path."""
        answer = json.loads(self.request("GET", path))
        items: list[dict[str, object]] = answer.get("items") or []
        return items

    def apply(self, path: str, body: object) -> None:
        """Server-side apply of ``body`` at ``path`` (the object's own path), taking over all fields."""
        self.request(
            "PATCH", f"{path}?fieldManager=devcluster&force=true", body, content_type="application/apply-patch+yaml"
        )

    def merge(self, path: str, body: object) -> None:
        """Send a JSON merge patch of ``body`` to ``path``."""
        self.request("PATCH", path, body, content_type="application/merge-patch+json")

    def is_ready(self) -> bool:
        """True if the apiserver's /readyz answers ok."""
        try:
            return self.request("GET", "/readyz") == b"ok"
        except ApiError:
            return False

    def watch(self, path: str, resource_version: str) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield ``(type, object)`` of each event of a watch, until the server ends it (within five minutes)."""
        connection = self._connect(330)
        query = f"?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={resource_version}"
        try:
            response = self._send(connection, "GET", path + query, None, "application/json")
            while line := response.readline():
                event = json.loads(line)
                yield event["type"], event["object"]
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"watch of https://{self.host}{path} broke: {error}") from error
        finally:
            connection.close()

    def _connect(self, timeout_s: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.host, context=self.tls, timeout=timeout_s)

    def _send(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: object, content_type: str
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        response = connection.getresponse()
        if response.status >= 300:
            text = response.read().decode(errors="replace")
            raise ApiError(response.status, f"{method} {path} answered {response.status}: {text[:500]}")
        return response
