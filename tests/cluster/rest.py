"""A few synchronous requests to a server on this machine: is it ready, make a node, give me a token.

`http.client` knows no proxy variables and needs no installation. The scenarios have a client of their own.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT: Final = 30.0

Json = dict[str, Any]


class RefusedError(RuntimeError):
    """The server answered, but not with a 2xx."""


@dataclass(frozen=True, kw_only=True)
class Rest:
    """One server on the loopback interface; `certificates` is what its TLS certificate is checked against."""

    port: int
    token: str
    certificates: Path

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send one request and return the decoded answer."""
        connection = HTTPSConnection(LOOPBACK, self.port, timeout=TIMEOUT, context=self._context())
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status // 100 != 2:  # noqa: PLR2004 the class of success
            raise RefusedError(f"{method} {path}: {answer.status} {text}")
        decoded: Json = json.loads(text)
        return decoded

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificates))


def healthy(port: int, path: str, *, tls: bool = True) -> bool:
    """Tell whether the server on `port` answers `path` with 200.

    Anonymous, and the certificate is not checked: each component signs its own, and the question is only whether the
    process we started ourselves is up.
    """
    connection = (
        HTTPSConnection(LOOPBACK, port, timeout=TIMEOUT, context=_unchecked())
        if tls
        else HTTPConnection(LOOPBACK, port, timeout=TIMEOUT)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200  # noqa: PLR2004 OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
