"""The certificate that we show kube-scheduler, and whom we trust: from files that others renew while we run.

Whoever issues certificates writes new files beside the running process (cert-manager, a Secret's volume). They are
looked at again every few seconds; each handshake takes what was good last. Of files that are being written, or do not
belong together, nothing is taken: what was good stays, and the log says why.

A connection that is open keeps what it began with: kube-scheduler's are reused, and end when it restarts.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final, NoReturn

from dra.api.extender_configuration import TlsFiles

RELOAD_INTERVAL: Final = 10.0
"""Seconds between two looks at the files: a few reads, and certificates are renewed weeks before they end."""

_log: Final = logging.getLogger(__name__)


class MalformedCertificateError(ValueError):
    """The files of section ``tls`` cannot be used."""


class ServingCertificate:
    """What handshakes use; `run` keeps it up to date."""

    def __init__(self, tls: TlsFiles) -> None:
        """Raises MalformedCertificateError."""
        self._tls = tls
        self._fault = ""
        self._read = self._bytes()
        self._newest = self._loaded()
        self.context: Final = self._loaded()
        """For the listening socket: hands each handshake over to the newest."""
        self.context.sni_callback = self._hand_over  # called without a server name, too

    async def run(self) -> NoReturn:
        """Look at the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> bool:
        """Take new files over if they are good; return whether there were any."""
        try:
            read = self._bytes()
            if read == self._read:
                self._fault = ""
                return False
            self._newest = self._loaded()
        except MalformedCertificateError as error:
            if str(error) != self._fault:
                _log.warning("%s; the certificate that was read before stays in use", error)
                self._fault = str(error)
            return False
        self._read, self._fault = read, ""
        _log.info("tls: %s was renewed and is in use", self._tls.certificate)
        return True

    def _hand_over(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest

    def _bytes(self) -> tuple[bytes, ...]:
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

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # kube-scheduler resumes no session, and making tickets is a third of a handshake
        tls = self._tls
        try:
            context.load_cert_chain(tls.certificate, tls.key, password=_refuse_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            text = (
                f"tls.certificate: {tls.certificate}: is no certificate in PEM form that tls.key ({tls.key}) belongs to"
            )
            raise MalformedCertificateError(f"{text}: {error}") from error
        if tls.client_authority:
            try:
                context.load_verify_locations(tls.client_authority)
            except OSError as error:
                text = f"tls.clientAuthority: {tls.client_authority}: has no certificate in PEM form"
                raise MalformedCertificateError(f"{text}: {error}") from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _refuse_password() -> str:
    raise ValueError("the key is encrypted; nobody is there to be asked for its password")
