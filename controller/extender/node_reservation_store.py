"""Persistence of node reservations whose annotation is unreadable: a ConfigMap in the extender's own namespace.

For such a node the last valid annotation counts, and only a process that has seen it knows it. So it is stored as soon
as it is needed, and removed when the node has a valid one again: on most clusters the ConfigMap does not exist.
"""

import asyncio
import logging
from typing import Final, NoReturn

from controller.extender.metrics import ExtenderMetrics
from controller.runtime import Runtime
from dra.engine.scheduling.node_reservations import NodeReservations
from dra.kube.backoff import Backoff
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import CONFIG_MAPS
from dra.model.meta import Key, ObjectMeta, PartialObjectMetadata, Struct

CONFIG_MAP_NAME: Final = "dra-reserve-node-reservations"

WRITE_INTERVAL: Final = 1.0
"""Seconds between two checks for something to write."""

_log: Final = logging.getLogger(__name__)


class _StoredConfigMap(Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


class NodeReservationStore:
    """A store of node reservations that each process loads at its start and only the leader writes."""

    def __init__(self, runtime: Runtime[ExtenderMetrics], *, reservations: NodeReservations, namespace: str) -> None:
        self._client = runtime.client
        self._reservations = reservations
        self._key: Key = (namespace, CONFIG_MAP_NAME)

    async def load(self) -> None:
        """Load the ConfigMap into the cache before any node is observed; without read access nothing is restored."""
        backoff = Backoff(base=0.2, cap=5.0)
        while True:
            try:
                found = await self._client.get(CONFIG_MAPS, self._key, _StoredConfigMap)
            except NotFound:
                return
            except Forbidden as error:
                _log.warning(
                    "last valid annotations of nodes with malformed annotations not read, continuing without: %s", error
                )
                return
            except ApiError as error:
                _log.info("last valid annotations of nodes not read, retrying: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                for name, fault in self._reservations.restore(found.data or {}).items():
                    _log.warning("node %s: stored annotation is malformed, ignored: %s", name, fault)
                return

    async def run(self) -> NoReturn:
        """Write changed node reservations until cancelled."""
        backoff = Backoff(base=WRITE_INTERVAL, cap=300.0)
        while True:
            wanted = self._reservations.annotations_to_store()
            if not (changes := self._reservations.changes(wanted)):
                await asyncio.sleep(WRITE_INTERVAL)
                continue
            try:
                await self._write(wanted, changes)
            except ApiError as error:
                _log.warning("last valid annotations of nodes not stored, a restart would lose them: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    async def _write(self, wanted: dict[str, str], changes: dict[str, str | None]) -> None:
        try:
            await self._client.merge_patch(CONFIG_MAPS, self._key, {"data": changes}, model=PartialObjectMetadata)
        except NotFound:
            body = {"metadata": {"name": CONFIG_MAP_NAME}, "data": wanted}
            await self._client.create(CONFIG_MAPS, body, model=PartialObjectMetadata, namespace=self._key[0])
        self._reservations.mark_stored(wanted)
