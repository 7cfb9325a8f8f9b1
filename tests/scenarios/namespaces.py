"""A namespace for one scenario: its objects, its devices, and the end of both."""

from __future__ import annotations

import re
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from dra.kube.protobuf_claim import PROTOBUF, ProtobufClaim
from tests.scenarios import objects, resources
from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.history import WatchHistory
from tests.scenarios.resources import CLAIMS, DEVICE_CLASSES, EVENTS, NAMESPACES, PODS, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tests.scenarios.api import Api, Json, Patch

LABEL: Final = "scenario.dra/namespace"
"""On every namespace of ours, to find what a killed run left on somebody's cluster."""


class Namespace:
    """Requests within one namespace, and cluster-scoped objects that end with it."""

    def __init__(self, api: Api, name: str) -> None:
        self.api: Final = api
        self.name: Final = name
        self._cluster_scoped: Final[list[tuple[Resource, str]]] = []

    async def create(self, obj: Json) -> Json:
        """Create an object; a cluster-scoped one is deleted together with the namespace."""
        resource = resources.of(obj)
        if not resource.namespaced:
            self._cluster_scoped.append((resource, obj["metadata"]["name"]))
        return await self.api.create(obj, namespace=self.name)

    async def create_all(self, many: Iterable[Json]) -> list[Json]:
        """Create many objects of this namespace, a few at a time."""
        return await self.api.create_all(many, namespace=self.name)

    async def offer_devices(self, count: int = 1, *, node: str | None = None) -> str:
        """Offer devices that only this scenario asks for, on one node or reachable from all; return their class."""
        driver = f"{self.name}.scenario.dra"
        if await self.api.find(DEVICE_CLASSES, driver) is None:
            await self.create(objects.device_class(driver, driver=driver))
        devices = [f"device-{number}" for number in range(count)]
        name = f"{self.name}-{node or 'shared'}"
        await self.create(objects.resource_slice(name, driver=driver, devices=devices, node=node))
        return driver

    async def get(self, resource: Resource, name: str) -> Json:
        """Return one object."""
        return await self.api.get(resource, name, namespace=self.name)

    async def find(self, resource: Resource, name: str) -> Json | None:
        """Return one object, None when there is none of that name."""
        return await self.api.find(resource, name, namespace=self.name)

    async def all(self, resource: Resource, **query: str) -> list[Json]:
        """Return all objects of a resource; `query` as in the API, e.g. labelSelector."""
        return await self.api.all(resource, namespace=self.name, **query)

    async def patch(self, resource: Resource, name: str, patch: Any, *, kind: Patch = "merge-patch") -> Json:
        """Patch one object."""
        return await self.api.patch(resource, name, patch, namespace=self.name, kind=kind)

    async def patch_status(self, resource: Resource, name: str, status: Any, *, kind: Patch = "merge-patch") -> Json:
        """Patch the status of one object; `status` without the word status around it."""
        return await self.api.patch(
            resource, name, {"status": status}, namespace=self.name, subresource="status", kind=kind
        )

    async def delete(self, resource: Resource, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete one object; one that is gone already is fine."""
        await self.api.delete(resource, name, namespace=self.name, grace_seconds=grace_seconds)

    async def events(self, about: str) -> list[Json]:
        """Return the events about the object of that name."""
        return await self.all(EVENTS, fieldSelector=f"involvedObject.name={about}")

    def history(self, name: str, *, resource: Resource = CLAIMS) -> WatchHistory:
        """Return a recorder of one object's versions, a claim's unless said otherwise."""
        return WatchHistory(self.api, resource, name, namespace=self.name)

    async def end(self) -> None:
        """Delete everything, and wait for nothing: the namespace controller goes on while the next scenario runs.

        Only claims are gone when this returns: the next scenario's controller would keep one that was used by a pod
        without a trace, for minutes, and with it the device.
        """
        await self.api.delete_collection(PODS, namespace=self.name, grace_seconds=0)
        await self.api.delete(NAMESPACES, self.name)
        for resource, name in self._cluster_scoped:
            await self.api.delete(resource, name)
        await self.api.delete_collection(CLAIMS, namespace=self.name)
        await self._drop_claim_finalizers()

    async def _drop_claim_finalizers(self) -> None:
        """Whoever should do it, our controller or the stock one, may not run any more."""
        for claim in await self.all(CLAIMS):
            try:
                await self._drop_finalizers_of(claim["metadata"]["name"])
            except ApiError as error:
                if error.status != 404:
                    raise

    async def _drop_finalizers_of(self, claim: str) -> None:
        patch = {"metadata": {"finalizers": None}}
        try:
            await self.patch(CLAIMS, claim, patch)
        except ApiError as error:
            if error.status != 422:
                raise
            path = CLAIMS.path(namespace=self.name, name=claim)
            exact = ProtobufClaim(await self.api.read(path, accept=PROTOBUF))  # see there
            exact.apply(patch)
            await self.api.request("PUT", path, exact.encode(), content_type=PROTOBUF)


@asynccontextmanager
async def temporary(api: Api, *, purpose: str) -> AsyncIterator[Namespace]:
    """Yield a new namespace with a name made from `purpose`, ready for pods."""
    slug = re.sub(r"[^a-z0-9]+", "-", purpose.lower()).strip("-")[:32].strip("-")
    namespace = Namespace(api, f"{slug}-{secrets.token_hex(3)}")
    metadata = {"name": namespace.name, "labels": {LABEL: "true"}}
    await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        await eventually(
            lambda: namespace.find(resources.SERVICE_ACCOUNTS, "default"),
            saying=f"namespace {namespace.name} has the service account without which no pod is admitted",
        )
        yield namespace
    finally:
        await namespace.end()
