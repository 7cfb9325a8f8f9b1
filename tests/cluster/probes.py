"""Asking a program of ours whether it is up."""

from __future__ import annotations

import ssl
from http.client import OK, HTTPConnection, HTTPException, HTTPSConnection
from typing import Final

from tests.cluster.ports import LOOPBACK

TIMEOUT: Final = 5.0


def healthy(port: int, path: str, *, tls: bool = True) -> bool:
    """Tell whether the server on `port` answers `path` with 200.

    The certificate is not checked: each component signs its own, and the question is only whether it is up.
    `http.client` knows no proxy variables.
    """
    connection = (
        HTTPSConnection(LOOPBACK, port, timeout=TIMEOUT, context=_unchecked())
        if tls
        else HTTPConnection(LOOPBACK, port, timeout=TIMEOUT)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
