"""Keys and certificates of a cluster, all on P-256.

The API server would make an RSA key of its own; a tenth of its time went into the RSA signatures of handshakes, since
each kubectl and each process of a scenario opens a connection.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from tests.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

CURVE: Final = "prime256v1"

NAMES: Final = (
    f"IP:{LOOPBACK}",
    "DNS:localhost",
    *(f"DNS:kubernetes{rest}" for rest in ("", ".default", ".default.svc", ".default.svc.cluster.local")),
)
"""Whom the API server's certificate is for, as in the one that it makes itself."""


def write_key(path: Path) -> None:
    """Write a new private key, for its owner only."""
    _openssl("ecparam", "-name", CURVE, "-genkey", "-noout", "-out", str(path))


def write_certificate(path: Path) -> None:
    """Write a new certificate, its own authority, and its key beside it, where the API server looks for both."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{CURVE}", "-nodes", "-days", "365"),
        *("-keyout", str(path.with_suffix(".key")), "-out", str(path)),
        *("-subj", "/CN=apiserver", "-addext", f"subjectAltName={','.join(NAMES)}"),
    )


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)  # noqa: S607
