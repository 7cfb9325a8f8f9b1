"""What a kubeconfig says about reaching its server, for the kinds of credentials that fit in the file."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A server, how to trust it and who we are there."""

    server: str
    tls: ssl.SSLContext
    headers: dict[str, str]

    @classmethod
    def read(cls, kubeconfig: Path) -> Self:
        """Read a file that `tests.cluster.kubeconfig` has written: one context, everything inline."""
        found = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
        tls = _trust(cluster)
        if "token" in user:
            return cls(server=cluster["server"], tls=tls, headers={"Authorization": f"Bearer {user['token']}"})
        if "client-certificate-data" in user:
            _present(tls, user)
            return cls(server=cluster["server"], tls=tls, headers={})
        raise ValueError(
            f"{kubeconfig}: the scenarios log in with a token or a client certificate, this user has {sorted(user)}; "
            "make a token with: kubectl create token"
        )


def _trust(cluster: dict[str, Any]) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority-data")
    tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def _present(tls: ssl.SSLContext, user: dict[str, Any]) -> None:
    with tempfile.NamedTemporaryFile() as pair:  # OpenSSL reads certificates from files only
        for part in ("client-certificate-data", "client-key-data"):
            pair.write(base64.b64decode(user[part]) + b"\n")
        pair.flush()
        tls.load_cert_chain(pair.name)
