"""Static kubeconfig files, read without the kubernetes package: its import takes a quarter of a second.

A static file contains a certificate or a token and nothing that changes: no exec plugin, no token file, no proxy. Files
with any unknown field are left to the kubernetes package, which also reports their faults.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_CLUSTER: Final = frozenset(
    {"server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify", "extensions"}
)
_USER: Final = frozenset(
    {"token", "client-certificate", "client-certificate-data", "client-key", "client-key-data", "extensions"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticContext:
    """The cluster and user of one context in a static kubeconfig file."""

    server: str
    token: str = field(default="", repr=False)
    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    verify: bool = True

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


def read_static_context(path: str, *, context: str | None = None) -> StaticContext | None:
    """Return the static context of a kubeconfig file; None if it is not static, or invalid."""
    from yaml import YAMLError, safe_load  # noqa: PLC0415 - only who has such a file needs it

    if os.pathsep in path:
        return None
    file = Path(path).expanduser()
    try:
        content = safe_load(file.read_text())
        wanted = _section(content, "context", context or content["current-context"])
        cluster = _section(content, "cluster", wanted["cluster"])
        user = _section(content, "user", wanted["user"])
        return _static_context(cluster, user, file.parent)
    except (OSError, YAMLError, LookupError, TypeError, AttributeError, ValueError):
        return None  # the kubernetes package reports the fault


def context_names(path: str) -> tuple[str, ...]:
    """Return the names of the contexts; empty if a file cannot be read."""
    from yaml import YAMLError, safe_load  # noqa: PLC0415 - as above

    found: dict[str, None] = {}
    for each in filter(None, path.split(os.pathsep)):
        try:
            content = safe_load(Path(each).expanduser().read_text()) or {}
            found |= {str(context["name"]): None for context in content.get("contexts") or ()}
        except FileNotFoundError:
            continue
        except (OSError, YAMLError, LookupError, TypeError, AttributeError):
            return ()
    return tuple(found)


def _section(content: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    (found,) = (each for each in content[f"{kind}s"] if each["name"] == name)
    section = found[kind]
    return section if isinstance(section, Mapping) else {}


def _static_context(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> StaticContext | None:
    server, token = cluster.get("server"), user.get("token", "")
    if not (cluster.keys() <= _CLUSTER and user.keys() <= _USER and isinstance(token, str)):
        return None
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        return None
    verify = not cluster.get("insecure-skip-tls-verify", False)
    certificate, key = (_file_or_data(user, name, folder) for name in ("client-certificate", "client-key"))
    if bool(certificate) != bool(key):
        return None
    ca = _file_or_data(cluster, "certificate-authority", folder)
    return StaticContext(
        server=server.rstrip("/"), token=token.strip(), ca=ca, certificate=certificate, key=key, verify=verify
    )


def _file_or_data(section: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """Return the content of a file or its inline data; data wins, as for kubectl. May raise ValueError."""
    if data := section.get(f"{name}-data"):
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            raise ValueError(name) from error
    return (folder / section[name]).read_bytes() if section.get(name) else b""
