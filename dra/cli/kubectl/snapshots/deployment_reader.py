"""Reads the Deployments of dra-reserve: how many of their replicas are Ready, and since when none is."""

from collections.abc import AsyncIterator
from typing import Final

from dra.engine.diagnosis.snapshot import InstalledDeployment
from dra.kube.client import Client, Selection
from dra.kube.errors import ApiError
from dra.kube.resources import DEPLOYMENTS
from dra.model.meta import ObjectMeta, Struct

NAME_SELECTOR: Final = "app.kubernetes.io/name=dra-reserve"
COMPONENT: Final = "app.kubernetes.io/component"

CONTROLLER: Final = "controller"
"""Component of a Deployment whose pods name none: older builds had the controller only."""


class _Template(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _Spec(Struct, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str = ""


class _Status(Struct, frozen=True):
    ready_replicas: int = 0
    conditions: list[_Condition] | None = None


class _Deployment(Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


async def read_deployments(client: Client, *, namespace: str) -> tuple[InstalledDeployment, ...]:
    """Return the Deployments of dra-reserve in a namespace; none where they may not be read.

    Whoever audits a namespace of their own has no right to read them, and misses nothing: the Lease is read as well.
    """
    try:
        return tuple([deployment async for deployment in list_deployments(client, namespace=namespace)])
    except ApiError:
        return ()


async def list_deployments(client: Client, *, namespace: str | None = None) -> AsyncIterator[InstalledDeployment]:
    """Yield the Deployments of dra-reserve in a namespace, or in all; raise ApiError."""
    selection = Selection(namespace=namespace, labels=NAME_SELECTOR)
    async for page in client.list_pages(DEPLOYMENTS, _Deployment, selection=selection):
        for deployment in page.items:
            yield _reduced(deployment)


def _reduced(deployment: _Deployment) -> InstalledDeployment:
    unavailable = (
        condition.last_transition_time
        for condition in deployment.status.conditions or ()
        if (condition.type, condition.status) == ("Available", "False")
    )
    return InstalledDeployment(
        namespace=deployment.metadata.namespace,
        name=deployment.metadata.name,
        component=(deployment.spec.template.metadata.labels or {}).get(COMPONENT, CONTROLLER),
        desired=deployment.spec.replicas,
        ready=deployment.status.ready_replicas,
        unavailable_since=next(unavailable, ""),
    )
