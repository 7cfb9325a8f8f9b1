"""Reports a Node's reserved CPUs to schedulers, in its NodeResourceTopology.

The annotation ``node.koordinator.sh/reservation`` of the Node may contain only an amount; the same annotation of the
NodeResourceTopology names the CPUs, and the zones have the remainder of each NUMA node. The object has the Node's name
and is deleted with the Node. If Koordinator's agent created it, the plugin writes only the annotation.

Best effort: where the kind is not served, or the plugin may not write it (deploy/node-topology has CRD and rights), no
scheduler reads it.
"""

import asyncio
import logging
from typing import Any, Final, NoReturn

import msgspec

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.reservations.node_reservation import ReservedCpus
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import NODE_TOPOLOGIES
from dra.model.meta import PartialObjectMetadata, Uid
from kubeletplugin.slices.desired_slices import MANAGED_BY, node_owner_reference

_log: Final = logging.getLogger(__name__)


class NodeTopologyReporter:
    """Keeps the NodeResourceTopology of a Node up to date; `run` never returns and ends only by cancellation."""

    def __init__(self, client: Client, *, node: str) -> None:
        self._client = client
        self._node = node
        self._wanted: tuple[ReservedCpus, Uid] | None = None
        self._changed = asyncio.Event()

    def report(self, kept: ReservedCpus, *, uid: Uid) -> None:
        """Schedule a write of the reserved CPUs of the Node with this uid."""
        if self._wanted != (kept, uid):
            self._wanted = (kept, uid)
            self._changed.set()

    async def run(self) -> NoReturn:
        """Write each change of the reserved CPUs until cancelled."""
        backoff = Backoff(base=1.0, cap=300.0)
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._wanted is None:
                continue
            kept, uid = self._wanted
            cpus = kept.cpus
            try:
                await self._write(kept, uid)
            except (Forbidden, NotFound) as error:
                _log.log(
                    logging.INFO if cpus else logging.DEBUG,
                    "node %s: its reserved CPUs %s are not published (CRD and rights: deploy/node-topology): %s",
                    self._node,
                    cpus or "none",
                    error,
                )
            except ApiError as error:
                _log.warning("node %s: its reserved CPUs are not published yet: %s", self._node, error)
                self._changed.set()
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    async def _write(self, kept: ReservedCpus, uid: Uid) -> None:
        cpus = kept.cpus
        text = msgspec.json.encode({"reservedCPUs": str(cpus)}).decode() if cpus else None
        key, annotations = ("", self._node), {ANNOTATION_NODE_RESERVATION: text}
        try:
            found = await self._client.merge_patch(
                NODE_TOPOLOGIES, key, {"metadata": {"annotations": annotations}}, model=PartialObjectMetadata
            )
            if MANAGED_BY.items() <= (found.metadata.labels or {}).items():
                await self._client.merge_patch(
                    NODE_TOPOLOGIES, key, {"zones": _zones_to_json(kept)}, model=PartialObjectMetadata
                )
        except NotFound:
            if cpus:
                await self._client.create(
                    NODE_TOPOLOGIES, self._made(annotations, kept, uid), model=PartialObjectMetadata
                )

    def _made(self, annotations: dict[str, str | None], kept: ReservedCpus, uid: Uid) -> dict[str, Any]:
        metadata = {
            "name": self._node,
            "labels": MANAGED_BY,
            "annotations": annotations,
            "ownerReferences": [msgspec.to_builtins(node_owner_reference(self._node, uid))],
        }
        return {"metadata": metadata, "topologyPolicies": ["None"], "zones": _zones_to_json(kept)}


def _zones_to_json(kept: ReservedCpus) -> list[dict[str, Any]]:
    """Return the NUMA nodes as zones of a NodeResourceTopology, in whole CPUs."""
    return [
        {
            "name": f"node-{zone.node}",
            "type": "Node",
            "resources": [
                {
                    "name": "cpu",
                    "capacity": str(zone.capacity),
                    "allocatable": str(zone.allocatable),
                    "available": str(zone.allocatable),
                }
            ],
        }
        for zone in kept.zones
    ]
