"""Namespaces and pods for commands that try something with one pod: they exist for the command only.

A namespace enforces the restricted Pod Security Standard, and so does each pod: a cluster that enforces it everywhere
admits the pod too, and the pod can do no harm.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dra.cli.kubectl.printers import print_to_stderr
from dra.kube.client import Client
from dra.kube.errors import ApiError
from dra.kube.resources import NAMESPACES
from dra.model.meta import PartialObjectMetadata


@asynccontextmanager
async def trial_namespace(
    client: Client, prefix: str, *, labels: Mapping[str, str] | None = None
) -> AsyncIterator[str]:
    """Yield the name of a new namespace, which is deleted at the end, also after an interruption; raise ApiError."""
    name = f"{prefix}-{secrets.token_hex(3)}"
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": name, "labels": enforced | dict(labels or {})}
    namespace = await client.create(NAMESPACES, {"metadata": metadata}, model=PartialObjectMetadata)
    try:
        yield name
    finally:
        try:
            await asyncio.shield(client.delete(NAMESPACES, ("", name), uid=namespace.metadata.uid))
        except ApiError as error:
            print_to_stderr(f"namespace {name} was not deleted ({error}); delete it: this command created it")


def restricted_pod(
    container: Mapping[str, Any], *, claim: Mapping[str, Any], user: int | None = None
) -> dict[str, Any]:
    """Return the spec of a pod without any permission, whose container uses the devices of one claim.

    Args:
        container: what is special about the container: its name, its image, its command.
        claim: an entry of ``spec.resourceClaims``.
        user: id of the user that runs the container; None leaves the choice to the image or to the cluster.
    """
    run_as = {} if user is None else {"runAsUser": user}
    limits = {
        "resources": {"claims": [{"name": claim["name"]}]},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}} | run_as,
        "resourceClaims": [dict(claim)],
        "containers": [dict(container) | limits],
    }
