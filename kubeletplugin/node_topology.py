"""Reports a Node's reserved CPUs to schedulers, in its NodeResourceTopology, and describes its CPUs to people.

The annotation ``node.koordinator.sh/reservation`` of the Node may contain only an amount; the same annotation of the
NodeResourceTopology names the CPUs, and the zones have the remainder of each NUMA node. The object has the Node's name
and is deleted with the Node. If Koordinator's agent created it, the plugin writes only the annotation: that agent keeps
the descriptions of CPUs, pods and pools itself, which drivers give otherwise (`NodeTopologyReportable`).

Best effort: where the kind is not served, or the plugin may not write it (deploy/node-topology has CRD and rights), no
scheduler reads it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.reservations.node_reservation import ReservedCpus
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import NODE_TOPOLOGIES
from dra.model.meta import PartialObjectMetadata, Struct, Uid
from kubeletplugin.contract import NodeTopologyReportable
from kubeletplugin.slices.desired_slices import MANAGED_BY, node_owner_reference
from kubeletplugin.ticks import until_tick

CHECK_INTERVAL: Final = 5.0
"""Seconds between two comparisons of the drivers' annotations with what was written."""

_log: Final = logging.getLogger(__name__)


class NodeTopologyReporter:
    """Keeps the NodeResourceTopology of a Node up to date; `run` never returns and ends only by cancellation."""

    def __init__(self, client: Client, *, node: str, drivers: Sequence[NodeTopologyReportable] = ()) -> None:
        """Create a reporter; the `drivers` describe the node's CPUs in further annotations."""
        self._client = client
        self._node = node
        self._drivers = drivers
        self._wanted: tuple[ReservedCpus, Uid] | None = None
        self._written: _Report | None = None
        self._changed = asyncio.Event()

    def report(self, kept: ReservedCpus, *, uid: Uid) -> None:
        """Schedule a write of the reserved CPUs of the Node with this uid."""
        if self._wanted != (kept, uid):
            self._wanted = (kept, uid)
            self._changed.set()

    async def run(self) -> NoReturn:
        """Write each change of the reserved CPUs and of the drivers' annotations until cancelled."""
        backoff = Backoff(base=1.0, cap=300.0)
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), until_tick(CHECK_INTERVAL) if self._drivers else None)
            self._changed.clear()
            if self._wanted is None:
                continue
            kept, uid = self._wanted
            cpus = kept.cpus
            report = _Report(
                kept=kept,
                uid=uid,
                annotations={
                    key: text for driver in self._drivers for key, text in driver.topology_annotations().items()
                },
            )
            if report == self._written:
                continue
            try:
                await self._write(report)
            # A missing right or CRD does not come back by retries: the next change of the report tries again.
            except (Forbidden, NotFound) as error:
                self._written = report
                _log.log(
                    logging.INFO if cpus else logging.DEBUG,
                    "node %s: its reserved CPUs %s are not published (CRD and rights: component node-topology): %s",
                    self._node,
                    cpus or "none",
                    error,
                )
            except ApiError as error:
                _log.warning("node %s: its reserved CPUs are not published yet: %s", self._node, error)
                self._changed.set()
                await asyncio.sleep(backoff.next())
            else:
                self._written = report
                backoff.reset()

    async def _write(self, report: "_Report") -> None:
        cpus = report.kept.cpus
        text = msgspec.json.encode({"reservedCPUs": str(cpus)}).decode() if cpus else None
        key, reservation = ("", self._node), {ANNOTATION_NODE_RESERVATION: text}
        try:
            topology = await self._client.merge_patch(
                NODE_TOPOLOGIES, key, {"metadata": {"annotations": reservation}}, model=PartialObjectMetadata
            )
            if MANAGED_BY.items() <= (topology.metadata.labels or {}).items():
                body = {"metadata": {"annotations": report.annotations}, "zones": _zones_to_json(report.kept)}
                await self._client.merge_patch(NODE_TOPOLOGIES, key, body, model=PartialObjectMetadata)
        except NotFound:
            if cpus or report.annotations:
                annotations = {**(reservation if cpus else {}), **report.annotations}
                await self._client.create(NODE_TOPOLOGIES, self._made(annotations, report), model=PartialObjectMetadata)

    def _made(self, annotations: Mapping[str, str | None], report: "_Report") -> dict[str, Any]:
        metadata = {
            "name": self._node,
            "labels": MANAGED_BY,
            "annotations": annotations,
            "ownerReferences": [msgspec.to_builtins(node_owner_reference(self._node, report.uid))],
        }
        return {"metadata": metadata, "topologyPolicies": ["None"], "zones": _zones_to_json(report.kept)}


class _Report(Struct, frozen=True):
    """The content of a NodeResourceTopology, and the uid of its Node."""

    kept: ReservedCpus
    uid: Uid
    annotations: Mapping[str, str]


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
