"""Credentials for an API server, from kubeconfig files or from the service account of a pod.

All of it can change while the process runs: service account tokens are rotated every hour, exec plugins issue tokens
for minutes, client certificates expire. So a transport asks for credentials before each request, and once more after a
401.

`kubeconfigs` reads kubeconfig files; kubernetes.aio.config obtains credentials that change and is imported only then:
the import costs 21 MiB and a quarter of a second. Its traps: it writes nothing back and refreshes nothing by itself; it
only logs a failing exec plugin, after which requests would be sent without any credentials.
"""

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from dra.kube import kubeconfigs
from dra.kube.clock import SYSTEM, Clock
from dra.kube.config_overrides import NO_OVERRIDES, ConfigOverrides
from dra.kube.errors import Unreachable
from dra.kube.kubeconfigs import MalformedKubeconfigError, ResolvedContext, StaticContext

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

REREAD_AFTER: Final = 60.0
"""Seconds for which a token read from a file is used; the kubelet replaces the token long before it expires."""

_TOKEN: Final = re.compile("[!-~]+")

EXPIRY_MARGIN: Final = timedelta(seconds=60)
"""Time before expiry at which the token of an exec plugin is replaced."""


@dataclass(frozen=True, slots=True)
class RestConfig:
    """The address of an API server with the credentials for one request."""

    host: str
    authorization: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)  # may contain a password
    impersonation: tuple[tuple[str, str], ...] = ()
    """The headers with which the server impersonates a user."""


class Credentials(Protocol):
    """A source of `RestConfig` for a transport."""

    async def access(self, *, rejected: RestConfig | None = None) -> RestConfig:
        """Return the RestConfig to use now; `rejected` is one that the server has answered with 401.

        May take arbitrarily long: an exec plugin may wait for a person to log in.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Credentials that never change."""

    value: RestConfig

    async def access(self, *, rejected: RestConfig | None = None) -> RestConfig:  # noqa: ARG002 - there is no other
        """Return the fixed RestConfig."""
        return self.value


class FileCredentials:
    """The CA and the bearer token of a server that is no API server; its files are read again for each request.

    So a rotated token or CA needs no restart. A token is never sent over a connection without TLS, except to loopback.
    """

    def __init__(
        self, host: str, *, ca: Path | None = None, token_file: Path | None = None, authorization: str | None = None
    ) -> None:
        """Create credentials for a server; raise ValueError if the files do not suit its URL.

        Without a CA, the system's CAs count; ``authorization`` is a header instead of a token.
        """
        if authorization is not None and token_file is not None:
            raise ValueError("a token needs an address without user and password")
        parts = urlsplit(host)
        if parts.scheme != "https" and ca is not None:
            raise ValueError("a CA needs an address that begins with https://")
        if parts.scheme != "https" and token_file is not None and not _is_loopback(parts.hostname or ""):
            raise ValueError("a token is sent over https:// alone, except to this machine itself")
        self._host = host
        self._ca = ca
        self._token_file = token_file
        self._header = authorization
        self._contexts = _TlsContexts()

    async def access(self, *, rejected: RestConfig | None = None) -> RestConfig:  # noqa: ARG002 - what is read is fresh
        """Return the RestConfig of the files as they are now."""
        try:
            tls = None if self._ca is None else self._contexts.context(ca=self._ca)
        except OSError as error:  # ssl.SSLError is one
            raise Unreachable(f"CA {self._ca}", str(error), outcome_unknown=False) from error
        return RestConfig(self._host, self._authorization(), tls)

    def _authorization(self) -> str | None:
        if self._token_file is None:
            return self._header
        subject = f"token file {self._token_file}"
        try:
            token = self._token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else None  # other errors show the content
            raise Unreachable(subject, why or "it is no text", outcome_unknown=False) from None
        if not _TOKEN.fullmatch(token):
            raise Unreachable(subject, "it must have one token, on one line", outcome_unknown=False)
        return f"Bearer {token}"


class ServiceAccountCredentials:
    """The service account of the pod that this process runs in."""

    def __init__(
        self,
        *,
        folder: Path = SERVICE_ACCOUNT,
        environment: Mapping[str, str] = os.environ,
        overrides: ConfigOverrides = NO_OVERRIDES,
        clock: Clock = SYSTEM,
    ) -> None:
        self._folder = folder
        self._overrides = overrides
        host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
        self._host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._clock = clock
        self._contexts = _TlsContexts()
        self._access: RestConfig | None = None
        self._read_at = 0.0

    async def access(self, *, rejected: RestConfig | None = None) -> RestConfig:
        """Return the RestConfig with the token as read from its file at most a minute ago."""
        now = self._clock.now()
        if self._access is None or self._access is rejected or now - self._read_at >= REREAD_AFTER:
            self._access, self._read_at = self._read(), now
        return self._access

    @property
    def namespace(self) -> str:
        """Return the namespace of the pod that this process runs in."""
        try:
            return (self._folder / "namespace").read_text().strip()
        except OSError:
            return ""

    def _read(self) -> RestConfig:
        overrides = self._overrides
        try:
            token = overrides.token or (self._folder / "token").read_text().strip()
            ca = Path(overrides.certificate_authority) if overrides.certificate_authority else self._folder / "ca.crt"
            tls = self._contexts.context(ca=ca, verify=not overrides.insecure_skip_tls_verify)
        except OSError as error:
            raise Unreachable("service account", f"{error}; is its token mounted?", outcome_unknown=False) from error
        try:
            impersonation = kubeconfigs.impersonation_headers(overrides)
        except MalformedKubeconfigError as error:
            raise Unreachable("service account", str(error), outcome_unknown=False) from error
        return RestConfig(self._host, f"Bearer {token}", tls, impersonation=impersonation)


class KubeconfigCredentials:
    """One context of a kubeconfig file (or of several files, as in $KUBECONFIG), with the overrides of a command line.

    An empty path is a kubeconfig without content, for a command line that names a server.
    """

    def __init__(self, path: str, *, overrides: ConfigOverrides = NO_OVERRIDES, clock: Clock = SYSTEM) -> None:
        self._path = path
        self._overrides = overrides
        self._clock = clock
        self._contexts = _TlsContexts()
        self._access: RestConfig | None = None
        self._stale_at = float("inf")
        self._reading = asyncio.Lock()

    async def access(self, *, rejected: RestConfig | None = None) -> RestConfig:
        """Return the RestConfig; re-read the file and rerun its exec plugin when the credentials have expired."""
        async with self._reading:  # fifty requests that get a 401 together run the plugin once
            if self._access is None or self._access is rejected or self._clock.now() >= self._stale_at:
                self._access, self._stale_at = await self._read()
            return self._access

    @property
    def namespace(self) -> str:
        """Return the namespace of the context; empty if unset or unreadable: requests will then report the cause."""
        try:
            return kubeconfigs.read_kubeconfig(self._path).namespace(self._overrides)
        except MalformedKubeconfigError:
            return ""

    async def _read(self) -> tuple[RestConfig, float]:
        """Return the RestConfig and the time at which to read the file again."""
        if self._path:
            _require_any_file(self._path)
        try:
            resolved = kubeconfigs.read_kubeconfig(self._path).resolve(self._overrides)
            simple = kubeconfigs.static_context(resolved)
            if simple is None:
                return await self._read_dynamic(resolved)
            access = RestConfig(
                simple.server,
                simple.authorization,
                self._contexts.of(simple),
                simple.server_name,
                impersonation=resolved.impersonation,
            )
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, MalformedKubeconfigError a ValueError
            raise self._unreachable(str(error)) from error
        return access, float("inf")

    async def _read_dynamic(self, resolved: ResolvedContext) -> tuple[RestConfig, float]:
        """Read a context that needs the kubernetes package."""
        from kubernetes.aio.client import Configuration  # noqa: PLC0415 - 21 MiB
        from kubernetes.aio.config import ConfigException, load_kube_config_from_dict  # noqa: PLC0415 - as above

        configuration = Configuration(host="")
        try:
            loader: Any = await load_kube_config_from_dict(  # type: ignore[no-untyped-call]
                resolved.document, client_configuration=configuration
            )
            tls = self._contexts.context(
                ca=_optional_path(configuration.ssl_ca_cert),
                certificate=_optional_path(configuration.cert_file),
                key=_optional_path(configuration.key_file),
                verify=configuration.verify_ssl,
            )
        except (ConfigException, OSError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._unreachable(str(error)) from error
        authorization = configuration.api_key.get("BearerToken")
        user = resolved.user
        if "exec" in user and authorization is None and configuration.cert_file is None:
            command = user["exec"].get("command")
            raise self._unreachable(f"the exec plugin {command} returned no credentials; see its error in the log")
        access = RestConfig(
            configuration.host,
            authorization,
            tls,
            configuration.tls_server_name,
            configuration.proxy,
            resolved.impersonation,
        )
        return access, self._stale(user, getattr(loader, "exec_plugin_expiry", None))

    def _unreachable(self, message: str) -> Unreachable:
        subject = f"kubeconfig {self._path}" if self._path else f"server {self._overrides.server}"
        return Unreachable(subject, message, outcome_unknown=False)

    def _stale(self, user: Mapping[str, Any], expiry: Any) -> float:  # noqa: ANN401 - untyped package
        """Return until when the credentials may be used, unless a 401 rejects them earlier."""
        if expiry is not None:
            left: float = (expiry - EXPIRY_MARGIN - self._clock.wall()).total_seconds()
            return self._clock.now() + max(1.0, left)
        return self._clock.now() + REREAD_AFTER if "tokenFile" in user else float("inf")


def find(path: str | None = None, *, overrides: ConfigOverrides = NO_OVERRIDES) -> Credentials:
    """Return the credentials that kubectl would use: the given file, $KUBECONFIG, ~/.kube/config, or the pod's own.

    An overriding server needs no file.

    Raises `Unreachable` at once for a named file that does not exist: among the failures of all watches the cause would
    go unnoticed.
    """
    named = kubeconfig_paths(path)
    if named:
        _require_any_file(named)
        known = kubeconfigs.context_names(named) if overrides.context else ()
        if known and overrides.context not in known:
            message = f"is not in kubeconfig {named}; use one of: {', '.join(known)}"
            raise Unreachable(f"context {overrides.context}", message, outcome_unknown=False)
        if overrides != NO_OVERRIDES:
            _check_overrides(named, overrides)
        return KubeconfigCredentials(named, overrides=overrides)
    if overrides.server:
        return KubeconfigCredentials("", overrides=overrides)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return ServiceAccountCredentials(overrides=overrides)
    raise Unreachable(
        "API server",
        f"no kubeconfig ({_home_kubeconfig()}, $KUBECONFIG), and this process does not run in a pod; use --kubeconfig, "
        'or for a local plane: eval "$(dra-reserve local env)"',
        outcome_unknown=False,
    )


def _check_overrides(paths: str, overrides: ConfigOverrides) -> None:
    """Raise `Unreachable` if the kubeconfig lacks what the overrides name."""
    try:
        kubeconfigs.read_kubeconfig(paths).resolve(overrides)
    except MalformedKubeconfigError as error:
        raise Unreachable(f"kubeconfig {paths}", str(error), outcome_unknown=False) from error


def kubeconfig_paths(path: str | None = None) -> str:
    """Return the kubeconfig files that kubectl would read: the given file, $KUBECONFIG or ~/.kube/config; or empty."""
    home = _home_kubeconfig()
    return path or os.environ.get("KUBECONFIG") or (str(home) if home.is_file() else "")


def _home_kubeconfig() -> Path:
    home = Path("~/.kube/config")
    with contextlib.suppress(RuntimeError):  # in a container the user may have no home directory
        home = home.expanduser()
    return home


def _require_any_file(paths: str) -> None:
    """Raise `Unreachable` unless one of the files exists.

    Some of the files in $KUBECONFIG may be missing, as for kubectl.
    """
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise Unreachable(f"kubeconfig {paths}", "no such file", outcome_unknown=False)


class _TlsContexts:
    """A cache of TLS contexts: connections are pooled by context, so the same files must yield the same context."""

    def __init__(self) -> None:
        self._made: tuple[str, ssl.SSLContext] | None = None

    def of(self, simple: StaticContext) -> ssl.SSLContext:
        """Return the TLS context of a static kubeconfig context."""
        parts = (simple.ca, simple.certificate, simple.key, str(simple.verify).encode())
        fingerprint = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        if self._made is None or self._made[0] != fingerprint:
            made = simple.context()
            made.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as below
            self._made = (fingerprint, made)
        return self._made[1]

    def context(
        self, *, ca: Path | None, certificate: Path | None = None, key: Path | None = None, verify: bool = True
    ) -> ssl.SSLContext:
        digest = hashlib.sha256(str(verify).encode())
        for path in (ca, certificate, key):
            digest.update(path.read_bytes() if path else b"-")
        fingerprint = digest.hexdigest()
        if self._made is not None and self._made[0] == fingerprint:
            return self._made[1]
        made = ssl.create_default_context(cafile=ca)
        # Since Python 3.13, contexts require extensions that the CAs of many clusters lack; client-go does not.
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not verify:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            made.load_cert_chain(certificate, key)
        self._made = (fingerprint, made)
        return made


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _optional_path(name: str | None) -> Path | None:
    return Path(name) if name else None


def current_namespace(path: str | None = None, *, overrides: ConfigOverrides = NO_OVERRIDES) -> str:
    """Return the default namespace as kubectl determines it; empty if none is set."""
    credentials = find(path, overrides=overrides)
    return credentials.namespace if isinstance(credentials, KubeconfigCredentials | ServiceAccountCredentials) else ""
