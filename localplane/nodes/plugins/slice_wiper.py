"""Removes the ResourceSlices of a node whose drivers cannot be reached: those of all drivers, or of one.

A driver that cannot be reached must not be given pods, so its devices are no longer offered. The driver publishes them
again when it is back, and so does a driver that kept running while its kubelet started.
"""

import asyncio
import logging
from typing import Final

from dra.kube.backoff import Backoff
from dra.kube.client import Client, Selection
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.resources import NODES, SLICES
from dra.model.meta import PartialObjectMetadata, Struct

WIPING_DELAY_SECONDS: Final = 30.0
"""Seconds from the loss of a driver's last connection to the removal of its slices."""

FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 300.0

_log: Final = logging.getLogger(__name__)


class _Spec(Struct, frozen=True):
    driver: str = ""


class _Slice(PartialObjectMetadata, frozen=True):
    spec: _Spec = _Spec()


class ResourceSliceWiper:
    """Removes ResourceSlices of one node."""

    def __init__(self, client: Client, node: str, *, kept_drivers: frozenset[str] = frozenset()) -> None:
        """Take ``kept_drivers``, the drivers whose devices this process itself publishes."""
        self._client = client
        self._node = node
        self._kept_drivers = kept_drivers

    async def wipe(self, driver: str | None = None) -> None:
        """Remove the slices of one driver, or of all; errors are retried until all are removed."""
        backoff = Backoff(base=FIRST_RETRY, cap=LAST_RETRY)
        while True:
            try:
                await self._client.get(NODES, ("", self._node), PartialObjectMetadata)
                await self._once(driver)
            except ApiError as error:
                _log.debug("node %s: ResourceSlices cannot be removed yet: %s", self._node, error)
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _once(self, driver: str | None) -> None:
        fields = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver is not None else "")
        async for page in self._client.list_pages(SLICES, _Slice, selection=Selection(fields=fields)):
            for resource_slice in page.items:
                if resource_slice.spec.driver not in self._kept_drivers:
                    await self._delete(resource_slice)

    async def _delete(self, resource_slice: _Slice) -> None:
        try:
            await self._client.delete(SLICES, resource_slice.metadata.key, uid=resource_slice.metadata.uid)
        except (NotFound, Conflict):  # gone, or published again meanwhile
            return
