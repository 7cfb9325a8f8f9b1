"""The serving certificate and the trusted client authority, from files that are renewed while the process runs.

A certificate issuer writes new files beside the running process (cert-manager, a Secret's volume). They are re-read
every few seconds; each handshake uses the last valid ones. Files that are incomplete or do not belong together are not
used: the last valid ones stay in use, and the log says why.

An open connection keeps the certificate it began with: kube-scheduler reuses its connections until it restarts.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final, NoReturn

from dra.api.extender_configuration import TlsFiles

RELOAD_INTERVAL: Final = 10.0
"""Seconds between two reads of the files: reads are cheap, and certificates are renewed weeks before they expire."""

_log: Final = logging.getLogger(__name__)


class MalformedCertificateError(ValueError):
    """The files of section ``tls`` cannot be used."""


class ServingCertificate:
    """The TLS context for handshakes; `run` keeps it up to date."""

    def __init__(self, tls: TlsFiles) -> None:
        """Load the files; raise MalformedCertificateError."""
        self._tls = tls
        self._fault = ""
        self._read = self._read_files()
        self._newest = self._load_context()
        self.context: Final = self._load_context()
        """Context of the listening socket; it switches each handshake to the newest context."""
        self.context.sni_callback = self._select_context  # also called without a server name

    async def run(self) -> NoReturn:
        """Re-read the files periodically until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> bool:
        """Load changed files if they are valid; return whether new ones were loaded."""
        try:
            read = self._read_files()
            if read == self._read:
                self._fault = ""
                return False
            self._newest = self._load_context()
        except MalformedCertificateError as error:
            if str(error) != self._fault:
                _log.warning("%s; keeping the previous certificate", error)
                self._fault = str(error)
            return False
        self._read, self._fault = read, ""
        _log.info("tls: %s changed; using the new certificate", self._tls.certificate)
        return True

    def _select_context(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest

    def _read_files(self) -> tuple[bytes, ...]:
        found = []
        for field, path in (
            ("certificate", self._tls.certificate),
            ("key", self._tls.key),
            ("clientAuthority", self._tls.client_authority),
        ):
            try:
                found.append(Path(path).read_bytes() if path else b"")
            except OSError as error:
                raise MalformedCertificateError(f"tls.{field}: {path}: {error.strerror}") from error
        return tuple(found)

    def _load_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # kube-scheduler resumes no session, and tickets cost a third of a handshake
        tls = self._tls
        try:
            context.load_cert_chain(tls.certificate, tls.key, password=_refuse_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            text = f"tls.certificate: {tls.certificate}: is not a PEM certificate that matches tls.key ({tls.key})"
            raise MalformedCertificateError(f"{text}: {error}") from error
        if tls.client_authority:
            try:
                context.load_verify_locations(tls.client_authority)
            except OSError as error:
                text = f"tls.clientAuthority: {tls.client_authority}: contains no PEM certificate"
                raise MalformedCertificateError(f"{text}: {error}") from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _refuse_password() -> str:
    raise ValueError("the key is encrypted; use a key without a password")
