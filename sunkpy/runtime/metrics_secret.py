"""Reads the certificate and the token that protect the metrics of a process. They are files of one Secret, which are
read again when they change.
"""

from __future__ import annotations

import hmac
import ssl
from pathlib import Path
from typing import Final

import structlog

from sunkpy.runtime.settings import BadSettings

_BEARER: Final = "Bearer "

_log = structlog.get_logger("metrics")


class MetricsSecret:
    """What protects the metrics of a process: a folder with the files `tls.crt`, `tls.key` and `token` of a Secret.

    Raises:
        BadSettings: there is no usable certificate.
    """

    def __init__(self, folder: Path) -> None:
        self._token = folder / "token"
        self._files = folder / "tls.crt", folder / "tls.key"
        try:
            self._seen = self._changed_ns()
            self._context = self._load()
        except OSError as error:
            raise BadSettings(
                f"http.secretFolder: read tls.crt and tls.key in {folder}: {error}. Put them into the Secret"
            ) from error

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection. If a new certificate is unusable, the old one stays."""
        try:
            if (changed := self._changed_ns()) != self._seen:
                self._seen = changed
                self._context = self._load()
        except OSError as error:
            _log.warning("new certificate cannot be used", folder=str(self._token.parent), error=str(error))
        return self._context

    def admits(self, authorization: str) -> bool:
        """True if this `Authorization` header has the token of the Secret. Nobody is admitted if the Secret's token is
        missing or empty.
        """
        try:
            token = self._token.read_bytes().strip()
        except OSError:
            return False
        given = authorization.removeprefix(_BEARER).encode(errors="surrogateescape")
        return bool(token) and authorization.startswith(_BEARER) and hmac.compare_digest(given, token)

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._files)
        return context

    def _changed_ns(self) -> list[int]:
        return [file.stat().st_mtime_ns for file in self._files]
