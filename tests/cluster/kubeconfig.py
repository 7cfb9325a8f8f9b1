"""Kubeconfig files: one server, one user, everything inline. Written as JSON, which every reader of YAML reads."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from tests.cluster.kubectl import kubectl

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

TOKEN_LIFETIME = "24h"  # noqa: S105 longer than any run: nobody renews these tokens


def write(path: Path, *, server: str, certificates: Path, token: str) -> Path:
    """Write a kubeconfig for one bearer token; `certificates` are what the server's certificate is checked against."""
    authority = base64.b64encode(certificates.read_bytes()).decode()
    cluster = {"server": server, "certificate-authority-data": authority}
    return _write(path, cluster=cluster, user={"token": token})


def flatten(path: Path, *, kubeconfig: str) -> Path:
    """Write the current context of `kubeconfig` to `path`; it may be several files, as in the environment variable."""
    view = kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json", kubeconfig=kubeconfig)
    found = json.loads(view)
    return _write(path, cluster=found["clusters"][0]["cluster"], user=found["users"][0]["user"])


def for_service_account(path: Path, *, admin: Path, namespace: str, name: str, node: str = "") -> Path:
    """Write a kubeconfig for an existing service account, with a token that `admin` requests for it.

    With a node it is one as its pods get there: the API server knows from it where they run.
    """
    bound = ["--bound-object-kind=Node", f"--bound-object-name={node}"] if node else []
    lifetime = f"--duration={TOKEN_LIFETIME}"
    token = kubectl("create", "token", name, f"--namespace={namespace}", lifetime, *bound, kubeconfig=str(admin))
    cluster = json.loads(admin.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    return _write(path, cluster=cluster, user={"token": token.strip()})


def via(path: Path, *, kubeconfig: Path, server: str) -> Path:
    """Write the same user's kubeconfig for another way to the server, one without TLS."""
    user = json.loads(kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]
    return _write(path, cluster={"server": server}, user=user)


def _write(path: Path, *, cluster: Json, user: Json) -> Path:
    name = path.stem
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
