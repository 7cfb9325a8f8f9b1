"""The serving certificate and the trusted client authority, from files that are renewed while the process runs.

A certificate issuer writes new files beside the running process (cert-manager, a Secret's volume). They are re-read
every few seconds; each handshake uses the last valid ones. Files that are incomplete or do not belong together are not
used: the last valid ones stay in use, and the log says why. The same holds for a new certificate that has expired.

When the certificate expires, kube-scheduler schedules no pod at all. So the log warns weeks before, `expiries` is for a
metric, and an alert follows from the metric.

An open connection keeps the certificate it began with: kube-scheduler reuses its connections until it restarts.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from dra.api.extender_configuration import TlsFiles
from dra.model.certificates import UnreadableCertificateError, expiry_times

RELOAD_INTERVAL: Final = 10.0
"""Seconds between two reads of the files: reads are cheap, and certificates are renewed weeks before they expire."""

DAY: Final = 86_400.0
WARNED_BEFORE: Final = (14 * DAY, 7 * DAY, 2 * DAY, DAY, 0.0)
"""Seconds before the end of a certificate at which the log says so, once for each."""

SERVING: Final = "serving"
CLIENT_AUTHORITY: Final = "client-authority"
CLIENT: Final = "client"
"""Labels of the metric: the certificate that is served, the authority of clients, and the last client's certificate."""

_log: Final = logging.getLogger(__name__)


class MalformedCertificateError(ValueError):
    """The files of section ``tls`` cannot be used."""


class ServingCertificate:
    """The TLS context for handshakes; `run` keeps it up to date."""

    def __init__(self, tls: TlsFiles, *, wall: Callable[[], datetime]) -> None:
        """Load the files; raise MalformedCertificateError. `wall` returns the time of day in UTC."""
        self._tls = tls
        self._wall = wall
        self._fault = ""
        self._warned: dict[str, tuple[datetime, float]] = {}
        """Certificate → its end, and the last item of `WARNED_BEFORE` that the log has named."""

        self._read = self._read_files()
        self._newest = self._load_context()
        self._ends = _ends(self._read)
        self._client = ("", self._wall())
        """The end of the last client's certificate, as the TLS library and as Python write it."""

        self._warn()
        self.context: Final = self._load_context()
        """Context of the listening socket; it switches each handshake to the newest context."""
        self.context.sni_callback = self._select_context  # also called without a server name

    async def run(self) -> NoReturn:
        """Re-read the files periodically until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            await asyncio.to_thread(self.refresh)

    def expiries(self) -> Mapping[str, float]:
        """Return the seconds until each certificate in use expires; negative after that."""
        now = self._wall()
        return {name: (end - now).total_seconds() for name, end in self._all_ends().items()}

    def observe_client(self, shown: Mapping[str, Any] | None) -> None:
        """Record the certificate of an authorized client, in the form of `ssl.SSLSocket.getpeercert`.

        A client whose certificate has expired is not observed again: its handshake fails.
        """
        not_after = shown.get("notAfter", "") if shown else ""
        if not_after and not_after != self._client[0]:
            self._client = (not_after, datetime.fromtimestamp(ssl.cert_time_to_seconds(not_after), UTC))

    def _all_ends(self) -> Mapping[str, datetime]:
        not_after, end = self._client
        return {**self._ends, CLIENT: end} if not_after else self._ends

    def refresh(self) -> bool:
        """Load changed files if they are valid; return whether new ones were loaded."""
        self._warn()
        try:
            read = self._read_files()
            if read == self._read:
                self._fault = ""
                return False
            newest, ends = self._load_context(), _ends(read)
            self._refuse_expired(ends)
        except MalformedCertificateError as error:
            if str(error) != self._fault:
                _log.warning("%s; keeping the previous certificate", error)
                self._fault = str(error)
            return False
        self._newest, self._ends, self._read, self._fault = newest, ends, read, ""
        _log.info("tls: %s changed; using the new certificate", self._tls.certificate)
        return True

    def _refuse_expired(self, ends: Mapping[str, datetime]) -> None:
        """Raise MalformedCertificateError if a certificate has expired, and the one that is in use has not."""
        now = self._wall()
        for name, end in ends.items():
            if end <= now < self._ends.get(name, now):
                raise MalformedCertificateError(f"{self._path(name)}: has expired on {end:%Y-%m-%d %H:%M} UTC")

    def _path(self, name: str) -> str:
        if name == CLIENT:
            return "client certificate of the last call"
        if name == SERVING:
            return f"tls.certificate: {self._tls.certificate}"
        return f"tls.clientAuthority: {self._tls.client_authority}"

    def _warn(self) -> None:
        """Log each certificate that expires soon, once for each limit that it passes."""
        for name, seconds in self.expiries().items():
            limit = min((warned_before for warned_before in WARNED_BEFORE if seconds <= warned_before), default=None)
            end = self._all_ends()[name]
            if limit is None or self._warned.get(name) == (end, limit):
                continue
            self._warned[name] = (end, limit)
            says = "has expired" if seconds <= 0 else f"expires in {seconds / DAY:.1f} days"
            _log.warning("%s: %s, on %s UTC; renew the certificate", self._path(name), says, f"{end:%Y-%m-%d %H:%M}")

    def _select_context(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest

    def _read_files(self) -> tuple[bytes, ...]:
        contents = []
        for field, path in (
            ("certificate", self._tls.certificate),
            ("key", self._tls.key),
            ("clientAuthority", self._tls.client_authority),
        ):
            try:
                contents.append(Path(path).read_bytes() if path else b"")
            except OSError as error:
                raise MalformedCertificateError(f"tls.{field}: {path}: {error.strerror}") from error
        return tuple(contents)

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


def _ends(read: tuple[bytes, ...]) -> dict[str, datetime]:
    """Return the ends of what `_read_files` has read.

    A chain ends with its first certificate that expires; of several authorities one is enough.
    """
    certificate, _, authority = read
    try:
        ends = {SERVING: min(expiry_times(certificate), default=None)}
        ends[CLIENT_AUTHORITY] = max(expiry_times(authority), default=None)
    except UnreadableCertificateError as error:  # the TLS library accepts what is not read here: no end is known
        _log.warning("tls: %s; no end of its validity is known", error)
        return {}
    return {name: end for name, end in ends.items() if end is not None}


def _refuse_password() -> str:
    raise ValueError("the key is encrypted; use a key without a password")
