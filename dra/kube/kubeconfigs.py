"""Kubeconfig files, merged and resolved as client-go does, without the kubernetes package.

The import of that package takes a quarter of a second, so only credentials that it must obtain are left to it: exec
plugins, auth providers, token files, passwords and proxies. Rules of k8s.io/client-go/tools/clientcmd:

- Of several files, the first one that sets a value or names an entry wins; a file that does not exist is skipped.
- Paths in a file are relative to the folder of the file.
- ``certificate-authority`` on a command line replaces the authority and ``insecure-skip-tls-verify`` of the cluster,
  ``server`` its ``tls-server-name``, and ``token`` all other ways to authenticate but a client certificate.
- An address without a scheme is one of http.
- Credentials are sent over TLS only; the headers that impersonate a user are sent always.
"""

import base64
import binascii
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from dra.kube.config_overrides import NO_OVERRIDES, ConfigOverrides

_CLUSTER: Final = frozenset(
    {
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
        "disable-compression",
        "extensions",
    }
)
_USER: Final = frozenset(
    {"token", "client-certificate", "client-certificate-data", "client-key", "client-key-data", "extensions"}
)
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}
_IMPERSONATION: Final = frozenset({"as", "as-uid", "as-groups", "as-user-extra"})
_TOKEN_ALTERNATIVES: Final = frozenset({"tokenFile", "exec", "auth-provider", "username", "password"})
_TLS_SETTINGS: Final = (
    "insecure-skip-tls-verify",
    "certificate-authority",
    "certificate-authority-data",
)
_SCHEME: Final = re.compile(r"https?://")

Section: TypeAlias = dict[str, Any]
Headers: TypeAlias = tuple[tuple[str, str], ...]


class MalformedKubeconfigError(ValueError):
    """A kubeconfig cannot be read, or lacks what the command line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticContext:
    """The cluster and user of one context whose credentials do not change."""

    server: str
    token: str = field(default="", repr=False)
    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    verify: bool = True
    server_name: str | None = None

    @property
    def authorization(self) -> str | None:
        """Return the Authorization header, if the context has a token."""
        return f"Bearer {self.token}" if self.token else None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context; raises OSError for an invalid certificate."""
        made = ssl.create_default_context(cadata=self.ca.decode("ascii") if self.ca else None)
        if not self.verify:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        if self.certificate:
            with tempfile.TemporaryDirectory() as folder:  # the ssl module accepts files only; keep them private
                paths = (Path(folder, "certificate"), Path(folder, "key"))
                for path, content in zip(paths, (self.certificate, self.key), strict=True):
                    path.touch(0o600)
                    path.write_bytes(content)
                made.load_cert_chain(*paths)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedContext:
    """The cluster and the user that requests use, with all overrides applied."""

    cluster: Section
    user: Section = field(repr=False)
    impersonation: Headers = ()
    """The headers with which the API server impersonates a user."""

    @property
    def document(self) -> Section:
        """The content of a kubeconfig that has this context only."""
        return {
            "current-context": "resolved",
            "contexts": [{"name": "resolved", "context": {"cluster": "resolved", "user": "resolved"}}],
            "clusters": [{"name": "resolved", "cluster": self.cluster}],
            "users": [{"name": "resolved", "user": self.user}],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """The merged content of kubeconfig files; all paths in it are absolute."""

    current_context: str = ""
    contexts: Mapping[str, Section] = field(default_factory=dict)
    clusters: Mapping[str, Section] = field(default_factory=dict)
    users: Mapping[str, Section] = field(default_factory=dict, repr=False)

    def namespace(self, overrides: ConfigOverrides = NO_OVERRIDES) -> str:
        """Return the namespace of the selected context; empty without one."""
        context = self.contexts.get(overrides.context or self.current_context, {})
        return str(context.get("namespace") or "")

    def resolve(self, overrides: ConfigOverrides = NO_OVERRIDES) -> ResolvedContext:
        """Return the cluster and user of the selected context. Raises MalformedKubeconfigError."""
        name = overrides.context or self.current_context
        if name and name not in self.contexts:
            raise MalformedKubeconfigError(f"context {name} does not exist")
        context = self.contexts.get(name, {})
        cluster_name, user_name = overrides.cluster or context.get("cluster"), overrides.user or context.get("user")
        if overrides.cluster and overrides.cluster not in self.clusters:
            raise MalformedKubeconfigError(f"cluster {overrides.cluster} does not exist{_known(self.clusters)}")
        if overrides.user and overrides.user not in self.users:
            raise MalformedKubeconfigError(f"user {overrides.user} does not exist{_known(self.users)}")
        cluster = _overridden_cluster(self.clusters.get(str(cluster_name), {}), overrides)
        user = _overridden_user(self.users.get(str(user_name), {}), overrides)
        if not cluster.get("server"):
            missing = "its cluster has no server" if name else "it has no current-context, and no context is selected"
            raise MalformedKubeconfigError(missing)
        if not _SCHEME.match(str(cluster["server"])):
            cluster["server"] = f"http://{cluster['server']}"
        impersonation = tuple(_impersonation_headers(user))
        user = {key: value for key, value in user.items() if key not in _IMPERSONATION}
        return ResolvedContext(
            cluster=cluster,
            user=user if cluster["server"].startswith("https://") else {},
            impersonation=impersonation,
        )


def read_kubeconfig(paths: str) -> Kubeconfig:
    """Return the merged content of files, separated as in $KUBECONFIG. Raises MalformedKubeconfigError."""
    from yaml import YAMLError, safe_load  # noqa: PLC0415 - only who has such a file needs it

    current = ""
    sections: dict[str, dict[str, Section]] = {"context": {}, "cluster": {}, "user": {}}
    for file_name in filter(None, paths.split(os.pathsep)):
        path = Path(file_name).expanduser()
        try:
            content = safe_load(path.read_text()) or {}
            current = current or str(content.get("current-context") or "")
            for kind, known in sections.items():
                for name, section in _entries(content, kind):
                    known.setdefault(name, _with_absolute_paths(section, kind, path.parent.absolute()))
        except FileNotFoundError:
            continue
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedKubeconfigError(f"{path.name} is not a kubeconfig: {error}") from error
        except (OSError, YAMLError, UnicodeDecodeError) as error:
            raise MalformedKubeconfigError(str(error)) from error
    return Kubeconfig(
        current_context=current, contexts=sections["context"], clusters=sections["cluster"], users=sections["user"]
    )


def static_context(resolved: ResolvedContext) -> StaticContext | None:
    """Return the static context; None if its credentials may change, or a file cannot be read."""
    cluster, user = resolved.cluster, resolved.user
    token = user.get("token") or ""
    if not (cluster.keys() <= _CLUSTER and user.keys() <= _USER and isinstance(token, str)):
        return None
    try:
        certificate, key = (_file_or_data(user, name) for name in ("client-certificate", "client-key"))
        ca = _file_or_data(cluster, "certificate-authority")
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # the kubernetes package reports the fault
    if bool(certificate) != bool(key):
        return None
    return StaticContext(
        server=cluster["server"].rstrip("/"),
        token=token.strip(),
        ca=ca,
        certificate=certificate,
        key=key,
        verify=not cluster.get("insecure-skip-tls-verify", False),
        server_name=cluster.get("tls-server-name") or None,
    )


def context_names(paths: str) -> tuple[str, ...]:
    """Return the names of the contexts; empty if a file cannot be read."""
    try:
        return tuple(read_kubeconfig(paths).contexts)
    except MalformedKubeconfigError:
        return ()


def impersonation_headers(overrides: ConfigOverrides) -> Headers:
    """Return the headers with which the API server impersonates the user of the overrides.

    Raises MalformedKubeconfigError for a uid or groups without a user.
    """
    return tuple(_impersonation_headers(_overridden_user({}, overrides)))


def _known(names: Mapping[str, object]) -> str:
    return f"; use one of: {', '.join(names)}" if names else ""


def _entries(content: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Section]]:
    names = set()
    for entry in content.get(f"{kind}s") or ():
        section = entry.get(kind) or {}
        if entry["name"] in names:
            raise MalformedKubeconfigError(f"there are several {kind}s {entry['name']}")
        names.add(entry["name"])
        if not isinstance(section, dict):
            raise TypeError(f"{kind} {entry['name']} is not a mapping")
        yield str(entry["name"]), section


def _with_absolute_paths(section: Section, kind: str, folder: Path) -> Section:
    absolute = dict(section)
    for name in _PATHS.get(kind, ()):
        if absolute.get(name):
            absolute[name] = str(folder / absolute[name])
    plugin = absolute.get("exec")
    if kind == "user" and isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        absolute["exec"] = {**plugin, "command": str(folder / plugin["command"])}
    return absolute


def _overridden_cluster(section: Section, overrides: ConfigOverrides) -> Section:
    cluster = dict(section)
    if overrides.insecure_skip_tls_verify or overrides.certificate_authority:
        cluster = {key: value for key, value in cluster.items() if key not in _TLS_SETTINGS}
    if overrides.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    if overrides.certificate_authority:
        cluster["certificate-authority"] = overrides.certificate_authority
    if overrides.server or overrides.tls_server_name:
        cluster["tls-server-name"] = overrides.tls_server_name
    if overrides.server:
        cluster["server"] = overrides.server
    return {key: value for key, value in cluster.items() if key != "tls-server-name" or value}


def _overridden_user(section: Section, overrides: ConfigOverrides) -> Section:
    user = dict(section)
    if overrides.token:
        user = {key: value for key, value in user.items() if key not in _TOKEN_ALTERNATIVES}
    for name, path in (("client-certificate", overrides.client_certificate), ("client-key", overrides.client_key)):
        if path:
            user.pop(f"{name}-data", None)
            user[name] = path
    given = {
        "token": overrides.token,
        "as": overrides.impersonate_user,
        "as-uid": overrides.impersonate_uid,
        "as-groups": list(overrides.impersonate_groups),
    }
    return user | {key: value for key, value in given.items() if value}


def _impersonation_headers(user: Section) -> Iterator[tuple[str, str]]:
    """Yield the headers of a user section. Raises MalformedKubeconfigError for groups without a user."""
    name, extra = user.get("as"), user.get("as-user-extra") or {}
    if not name:
        if user.get("as-uid") or user.get("as-groups") or extra:
            raise MalformedKubeconfigError("groups, a uid or extra fields to impersonate require a user: --as")
        return
    yield "Impersonate-User", str(name)
    if user.get("as-uid"):
        yield "Impersonate-Uid", str(user["as-uid"])
    yield from (("Impersonate-Group", str(group)) for group in user.get("as-groups") or ())
    for key, values in extra.items():
        yield from ((f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)) for value in values)


def _file_or_data(section: Mapping[str, Any], name: str) -> bytes:
    """Return the content of a file or its inline data; data wins, as for kubectl. May raise ValueError."""
    if data := section.get(f"{name}-data"):
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            raise ValueError(name) from error
    return Path(section[name]).read_bytes() if section.get(name) else b""
