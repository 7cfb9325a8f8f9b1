"""Finds by trial which controller creates claims from templates.

The trial creates a namespace, a template, and a pod that no scheduler binds, because the pod names a scheduler that
does not exist. A claim controller creates the claim within a second; the API server records the creator in
managedFields. The namespace is deleted in any case.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from dra.cli.kubectl.preflight.stock_controller import ManagedObject
from dra.cli.kubectl.printers import print_to_stderr
from dra.kube.client import Client, Selection
from dra.kube.errors import ApiError
from dra.kube.resources import CLAIMS, PODS, TEMPLATES, Resource
from dra.model.meta import PartialObjectMetadata

CLAIM_WAIT: Final = 15.0
"""Seconds until the claim must exist: the stock controller takes one, after a restart some more."""

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PROBE_LABEL: Final = "reserve.dra/probe"

_ACCOUNT_WAIT: Final = 10.0
_NAME: Final = "probe"


async def find_claim_creator(client: Client) -> str | None:
    """Return the field manager that created a claim for a throw-away pod; None if no claim appears. Raise ApiError."""
    async with _probe_namespace(client) as namespace:
        request = {"name": _NAME, "exactly": {"deviceClassName": "probe.reserve.dra"}}
        template = {"metadata": {"name": _NAME}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        await client.create(TEMPLATES, template, model=PartialObjectMetadata, namespace=namespace)
        await _create_pod(client, namespace)
        loop = asyncio.get_running_loop()
        until = loop.time() + CLAIM_WAIT
        while loop.time() < until:
            async for page in client.list_pages(CLAIMS, ManagedObject, selection=Selection(namespace=namespace)):
                for claim in page.items:
                    return claim.maker
            await asyncio.sleep(0.25)
        return None


@asynccontextmanager
async def _probe_namespace(client: Client) -> AsyncIterator[str]:
    name = f"dra-reserve-probe-{secrets.token_hex(3)}"
    labels = {PROBE_LABEL: "true", "pod-security.kubernetes.io/enforce": "restricted"}
    made = await client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}}, model=PartialObjectMetadata)
    try:
        yield name
    finally:
        try:
            await asyncio.shield(client.delete(NAMESPACES, ("", name), uid=made.metadata.uid))
        except ApiError as error:
            print_to_stderr(
                f"namespace {name} is left over ({error}); delete it: this command has made it, for one pod of its own"
            )


async def _create_pod(client: Client, namespace: str) -> None:
    """Create the pod, retrying while the new namespace has no service account and therefore takes no pods."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _ACCOUNT_WAIT
    while True:
        try:
            await client.create(PODS, _POD, model=PartialObjectMetadata, namespace=namespace)
        except ApiError as error:
            if loop.time() >= until or "serviceaccount" not in str(error):
                raise
            await asyncio.sleep(0.25)
        else:
            return


_POD: Final = {
    "metadata": {"name": _NAME},
    "spec": {
        "schedulerName": "nobody.reserve.dra",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "resourceClaims": [{"name": _NAME, "resourceClaimTemplateName": _NAME}],
        "containers": [
            {
                "name": _NAME,
                "image": "probe.invalid/never-pulled",
                "resources": {"claims": [{"name": _NAME}]},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}
