"""Tells schedulers which CPUs a Node keeps: annotation ``node.koordinator.sh/reservation`` of its NodeResourceTopology.

The Node's own annotation may name an amount; this one names the CPUs. The object bears the Node's name and goes with
it. Koordinator's agent may have made it: then only the annotation is ours.

Best effort: where the kind is not served, or may not be written (deploy/node-topology has both), nobody looks there.
"""

import asyncio
import logging
from typing import Any, Final, NoReturn

import msgspec

from dra.engine.cpus.cpusets import CpuSet
from dra.engine.reservations.marks import NODE_RESERVATION
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import TOPOLOGIES
from dra.model.meta import PartialObject, Uid
from kubeletplugin.slices.desired import MANAGED_BY, owner

_log: Final = logging.getLogger(__name__)


class NodeTopology:
    """Keeps the annotation as it should be. `run` never returns; cancel it."""

    def __init__(self, client: Client, *, node: str) -> None:
        self._client = client
        self._node = node
        self._wanted: tuple[CpuSet, Uid] | None = None
        self._news = asyncio.Event()

    def tell(self, cpus: CpuSet, *, uid: Uid) -> None:
        """Have it say that these CPUs are kept; the Node has this uid."""
        if self._wanted != (cpus, uid):
            self._wanted = (cpus, uid)
            self._news.set()

    async def run(self) -> NoReturn:
        """Write whenever there is news, until cancelled."""
        backoff = Backoff(base=1.0, cap=300.0)
        while True:
            await self._news.wait()
            self._news.clear()
            if self._wanted is None:
                continue
            cpus, uid = self._wanted
            try:
                await self._write(cpus, uid)
            except (Forbidden, NotFound) as error:
                _log.log(
                    logging.INFO if cpus else logging.DEBUG,
                    "node %s: that it keeps CPUs %s is not published (kubectl apply -k deploy/node-topology): %s",
                    self._node,
                    cpus or "none",
                    error,
                )
            except ApiError as error:
                _log.warning("node %s: which CPUs it keeps is not published yet: %s", self._node, error)
                self._news.set()
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    async def _write(self, cpus: CpuSet, uid: Uid) -> None:
        text = msgspec.json.encode({"reservedCPUs": str(cpus)}).decode() if cpus else None
        key, annotations = ("", self._node), {NODE_RESERVATION: text}
        try:
            await self._client.merge_patch(
                TOPOLOGIES, key, {"metadata": {"annotations": annotations}}, model=PartialObject
            )
        except NotFound:
            if cpus:
                await self._client.create(TOPOLOGIES, self._made(annotations, uid), model=PartialObject)

    def _made(self, annotations: dict[str, str | None], uid: Uid) -> dict[str, Any]:
        metadata = {
            "name": self._node,
            "labels": MANAGED_BY,
            "annotations": annotations,
            "ownerReferences": [msgspec.to_builtins(owner(self._node, uid))],
        }
        return {"metadata": metadata, "topologyPolicies": ["None"], "zones": []}
