"""Certificates for tests, made by openssl: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SERVER: Final = "dra-reserve-extender.dra-reserve.svc"


class Authority:
    """Signs; its files are NAME-ca.crt and what `sign` returns."""

    def __init__(self, folder: Path, name: str = "first") -> None:
        self._folder, self._name = folder, name
        self.certificate = folder / f"{name}-ca.crt"
        self._key = folder / f"{name}-ca.key"
        made = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "90")
        openssl(*made, "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate)

    def sign(self, name: str, *, usage: str, days: int = 60) -> tuple[Path, Path]:
        """Return the files of a certificate for that name, and of its key."""
        base = self._folder / f"{self._name}-{name.partition('.')[0]}"
        request, extensions = base.with_suffix(".csr"), base.with_suffix(".ext")
        certificate, key = base.with_suffix(".crt"), base.with_suffix(".key")
        made = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl(*made, "-subj", f"/CN={name[:60]}", "-keyout", key, "-out", request)
        extensions.write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\nextendedKeyUsage={usage}\n")
        authority = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial")
        openssl("x509", "-req", "-in", request, *authority, "-days", days, "-extfile", extensions, "-out", certificate)
        return certificate, key


def openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)
