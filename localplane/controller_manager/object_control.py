"""Writes the objects of one kind and stores the results in their informer (upstream: PodControlInterface and the like).

A controller that has written an object therefore never decides again on the version before its own write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from dra.kube.client import Client
from dra.kube.clock import Clock, rfc3339
from dra.kube.codec import ApiObject
from dra.kube.errors import Conflict, NotFound
from dra.model.meta import ObjectMeta
from localplane.controller_manager.informer import Informer

T = TypeVar("T", bound=ApiObject)
Item = TypeVar("Item")


class ObjectControl(Generic[T]):
    """Creates, patches and deletes the objects of one kind."""

    def __init__(self, client: Client, informer: Informer[T], *, clock: Clock) -> None:
        self._client = client
        self._informer = informer
        self._clock = clock

    async def create(self, body: dict[str, Any], *, namespace: str) -> None:
        """Create an object and store the created version."""
        informer = self._informer
        informer.observe(await self._client.create(informer.resource, body, model=informer.model, namespace=namespace))

    async def patch(self, meta: ObjectMeta, body: dict[str, Any], *, subresource: str | None = None) -> bool:
        """Patch the known version of an object; return whether the object has changed or is gone.

        After a `Conflict`, the current version is read before the error is raised.
        """
        informer = self._informer
        try:
            changed = await self._client.merge_patch(
                informer.resource,
                meta.key,
                body,
                model=informer.model,
                subresource=subresource,
                resource_version=meta.resource_version,
                uid=meta.uid,
            )
        except NotFound:
            informer.forget(meta)
            return True
        except Conflict:
            await self._read(meta)
            raise
        informer.observe(changed)
        return changed.metadata.resource_version != meta.resource_version

    async def delete(self, obj: T) -> None:
        """Delete an object; an object that is gone is forgotten."""
        try:
            await self._client.delete(self._informer.resource, obj.metadata.key, uid=obj.metadata.uid)
        except (NotFound, Conflict):
            self._informer.forget(obj.metadata)
        else:
            self._informer.mark_deleting(obj, rfc3339(self._clock.wall()))

    async def _read(self, meta: ObjectMeta) -> None:
        try:
            current = await self._client.get(self._informer.resource, meta.key, self._informer.model)
        except NotFound:
            self._informer.forget(meta)
            return
        if current.metadata.uid != meta.uid:
            self._informer.forget(meta)
        self._informer.observe(current)


async def slow_start_batch(
    items: Sequence[Item], act: Callable[[Item], Awaitable[None]], *, largest: int = 500
) -> None:
    """Call `act` on all items in batches of doubling size, so that a failure common to all items happens only once.

    After the first batch with a failure, raise the failure and skip the rest.
    """
    first, size = 0, 1
    while first < len(items):
        results = await asyncio.gather(*map(act, items[first : first + size]), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        first, size = first + size, min(2 * size, largest)
