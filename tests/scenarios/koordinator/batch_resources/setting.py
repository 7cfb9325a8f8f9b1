"""Creates the objects of all cases on a cluster, before anybody computes batch resources."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dra.kube.clock import SYSTEM
from tests.scenarios.api import AT_ONCE, ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.koordinator.batch_resources import manifests
from tests.scenarios.resources import PODS, SERVICE_ACCOUNTS, Resource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from tests.scenarios.api import Api
    from tests.scenarios.koordinator.batch_resources.cases import Case, Pod

Json = dict[str, Any]

NODE_METRICS: Final = Resource("slo.koordinator.sh/v1alpha1", "NodeMetric", "nodemetrics", namespaced=False)
CONFIG_MAPS: Final = Resource("v1", "ConfigMap", "configmaps")


async def create_all(api: Api, cases: Sequence[Case]) -> None:
    """Create the configuration, and for each case its Node, pods and NodeMetric."""
    configuration = manifests.configuration()
    namespace = configuration["metadata"]["namespace"]
    for each in (*manifests.priority_classes(), manifests.runtime_class(), _namespace(namespace), _namespace()):
        await _ensure(partial(api.create, each))
    await _ensure(partial(api.request, "POST", CONFIG_MAPS.path(namespace=namespace), configuration))
    await eventually(
        lambda: api.find(SERVICE_ACCOUNTS, "default", namespace=manifests.NAMESPACE),
        saying="the namespace has its service account",
    )
    await _at_once(lambda case: _create(api, case), cases)


async def _create(api: Api, case: Case) -> None:
    await api.create(manifests.node(case))
    for pod, manifest in manifests.pods(case):
        await _create_pod(api, pod, manifest)
    metric = manifests.node_metric(case, now=SYSTEM.wall())
    await api.request("POST", NODE_METRICS.path(), metric)
    if "status" in metric:
        await api.patch(NODE_METRICS, case.name, {"status": metric["status"]}, subresource="status")


async def _create_pod(api: Api, pod: Pod, manifest: Json) -> None:
    name, namespace = manifest["metadata"]["name"], manifests.NAMESPACE
    await api.create(manifest, namespace=namespace)
    if pod.phase != "Pending":
        await api.patch(PODS, name, {"status": {"phase": pod.phase}}, namespace=namespace, subresource="status")
    if pod.deleted:
        await api.delete(PODS, name, namespace=namespace, grace_seconds=3600)


def _namespace(name: str = manifests.NAMESPACE) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def _ensure(create: Callable[[], Awaitable[Json]]) -> None:
    """Create an object unless there is one of its name."""
    try:
        await create()
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


async def _at_once(create: Callable[[Case], Awaitable[None]], cases: Iterable[Case]) -> None:
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> None:
        async with turn:
            await create(case)

    async with asyncio.TaskGroup() as group:
        for each in cases:
            group.create_task(one(each))
