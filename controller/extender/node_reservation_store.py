"""Persistence of node reservations whose annotation is unreadable: a ConfigMap in the extender's own namespace.

For such a node the last valid annotation counts, and only a process that has seen it knows it. So it is stored as soon
as it is needed, and removed when the node has a valid one again: on most clusters the ConfigMap does not exist.
"""

import asyncio
import logging
from typing import Final

from controller.extender.informers import ExtenderInformers
from controller.extender.metrics import ExtenderMetrics
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.scheduling.node_reservations import CONFIG_MAP_NAME, NodeReservations
from dra.kube.backoff import Backoff
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import CONFIG_MAPS
from dra.model.meta import Key, ObjectMeta, PartialObjectMetadata, Struct

_log: Final = logging.getLogger(__name__)


class _StoredConfigMap(Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


class NodeReservationStore(Reconciler[str]):
    """The loop that stores node reservations: each process loads them at its start, and only the leader writes."""

    settings = Settings(name="config map", workers=1, retry=(1.0, 300.0), batch_delay=0.5)
    cache: NodeReservations

    def __init__(
        self,
        runtime: Runtime[ExtenderMetrics],
        informers: ExtenderInformers,
        *,
        cache: NodeReservations,
        namespace: str,
    ) -> None:
        super().__init__(runtime, informers, cache)
        self._client = runtime.client
        self._namespace = namespace

    async def load(self) -> None:
        """Load the ConfigMap into the cache before any node is observed; without read access nothing is restored."""
        backoff = Backoff(base=0.2, cap=5.0)
        while True:
            try:
                stored = await self._client.get(CONFIG_MAPS, (self._namespace, CONFIG_MAP_NAME), _StoredConfigMap)
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
                for name, fault in self.cache.restore(stored.data).items():
                    _log.warning("node %s: stored annotation is malformed, ignored: %s", name, fault)
                return

    async def reconcile(self, key: str, now: Moment) -> Instant:  # noqa: ARG002 - nothing here waits for a time
        """Write the changed annotations, if there are any. Raises ApiError: a restart would lose them."""
        wanted = self.cache.annotations_to_store()
        if changes := self.cache.changes(wanted):
            await self._write((self._namespace, key), wanted, changes)
            self.cache.mark_stored(wanted)
        return NEVER

    async def _write(self, key: Key, wanted: dict[str, str], changes: dict[str, str | None]) -> None:
        timeout = self._runtime.write_timeout()
        try:
            await self._client.merge_patch(
                CONFIG_MAPS, key, {"data": changes}, model=PartialObjectMetadata, timeout_seconds=timeout
            )
        except NotFound:
            body, timeout = {"metadata": {"name": key[1]}, "data": wanted}, self._runtime.write_timeout()
            await self._client.create(
                CONFIG_MAPS, body, model=PartialObjectMetadata, namespace=key[0], timeout_seconds=timeout
            )
