"""Finds evidence of the stock claim controller on a cluster: in what it has written, and with a probe.

The probe is a pod in a namespace of its own, which no scheduler takes up: who makes the claim from its template runs.
"""

import asyncio
from datetime import datetime
from typing import Final

from dra.cli.kubectl import connection
from dra.cli.kubectl.preflight import stock_controller
from dra.cli.kubectl.preflight.stock_controller import CONTROLLER_MANAGER, ManagedObject, StockControllerEvidence
from dra.cli.kubectl.trial_pods import restricted_pod, trial_namespace
from dra.kube.client import Client, Selection
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import CLAIMS, PODS, TEMPLATES
from dra.model.claims import ResourceClaim
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from dra.model.pods import Pod

CLAIM_WAIT: Final = 15.0
"""Seconds until the claim must exist: the stock controller takes one, after a restart some more."""

PROBE_LABEL: Final = "reserve.dra/probe"

_ACCOUNT_WAIT: Final = 10.0

_NAME: Final = "probe"

SYSTEM_NAMESPACE: Final = "kube-system"


async def find_stock_controller(client: Client, *, now: datetime, probing: bool) -> StockControllerEvidence:
    """Find out whether the stock claim controller runs; raise ApiError."""
    if (processes := await connection.companion_processes(client)) is not None:
        return stock_controller.judge_local_plane(processes)
    flags = stock_controller.judge_by_flags(await _list_controller_manager_pods(client))
    if flags is not None:
        return flags
    if probing:
        return stock_controller.judge_by_claim_creator(await find_claim_creator(client), seconds=CLAIM_WAIT)
    claims: dict[tuple[str, str], ResourceClaim] = {}
    async for page in client.list_pages(CLAIMS, ResourceClaim):
        claims |= {claim.metadata.key: claim for claim in page.items}
    async for pods in client.list_pages(PODS, Pod, selection=Selection(fields="spec.nodeName!=")):
        neglected = stock_controller.judge_by_unlisted_pods(claims, pods.items, now=now)
        if neglected is not None:
            return neglected
    async for traces in client.list_pages(CLAIMS, ManagedObject):
        written = stock_controller.judge_by_managed_fields(traces.items, now=now)
        if written is not None:
            return written
    return stock_controller.assume_enabled()


async def _list_controller_manager_pods(client: Client) -> list[dict[str, object]]:
    selection = Selection(namespace=SYSTEM_NAMESPACE, labels=f"component={CONTROLLER_MANAGER}")
    try:
        pages = [page async for page in client.list_pages(PODS, UnstructuredObject, selection=selection)]
    except (Forbidden, NotFound):
        return []
    return [pod.content for page in pages for pod in page.items]


async def find_claim_creator(client: Client) -> str | None:
    """Return the field manager that created a claim for a throw-away pod; None if no claim appears. Raise ApiError."""
    async with trial_namespace(client, "dra-reserve-probe", labels={PROBE_LABEL: "true"}) as namespace:
        request = {"name": _NAME, "exactly": {"deviceClassName": "probe.reserve.dra"}}
        template = {"metadata": {"name": _NAME}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        await client.create(TEMPLATES, template, model=PartialObjectMetadata, namespace=namespace)
        await _create_pod(client, namespace)
        loop = asyncio.get_running_loop()
        until = loop.time() + CLAIM_WAIT
        while loop.time() < until:
            async for page in client.list_pages(CLAIMS, ManagedObject, selection=Selection(namespace=namespace)):
                for claim in page.items:
                    return claim.creator
            await asyncio.sleep(0.25)
        return None


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
        **restricted_pod(
            {"name": _NAME, "image": "probe.invalid/never-pulled"},
            claim={"name": _NAME, "resourceClaimTemplateName": _NAME},
        ),
    },
}
