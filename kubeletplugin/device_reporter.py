"""Reports a node's devices to people and programs that read Koordinator's kind Device (``--koordinator-devices``).

The Device has the Node's name, is owned by the Node, and so is deleted with the Node. The Node gets the labels of the
devices' model, driver version and vendor. A Device that somebody else has created, such as Koordinator's agent, stays
as it is, and so do the Node's labels.

Nothing is decided by the report: the scheduler reads ResourceSlices. Where the kind is not served, or the plugin may
not write it (deploy/koordinator-devices has CRD and rights), claims are prepared all the same.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec

from dra.api.koordinator.well_known import GPU_LABELS
from dra.api.object_fields import to_document
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, rfc3339
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import DEVICES, NODES
from dra.model.meta import PartialObjectMetadata
from kubeletplugin.change_broadcaster import ChangeBroadcaster
from kubeletplugin.claim_preparer import ClaimPreparer
from kubeletplugin.contract import DeviceReport, DeviceReportable
from kubeletplugin.drivers.gpu.device_report import with_transition_times
from kubeletplugin.slices.desired_slices import MANAGED_BY, node_owner_reference

CHECK_INTERVAL: Final = 5.0
"""Seconds between two comparisons of the report with what was written: claims are prepared without a notification."""

REPEAT_INTERVAL: Final = 600.0
"""Seconds after which an unchanged report is written again, in case somebody has changed or deleted the Device."""

_log: Final = logging.getLogger(__name__)


class DeviceReporter:
    """Keeps the Device of a Node up to date; `run` never returns and ends only by cancellation."""

    def __init__(
        self,
        client: Client,
        driver: DeviceReportable,
        *,
        node: str,
        preparer: ClaimPreparer,
        changes: ChangeBroadcaster,
    ) -> None:
        """Create the reporter of a driver with its preparer and its changes."""
        self._client = client
        self._driver = driver
        self._node = node
        self._preparer = preparer
        self._changes = changes
        self._written: tuple[float, DeviceReport] | None = None
        """The report that was written last, and when."""

    async def run(self) -> NoReturn:
        """Write each change of the report until cancelled."""
        backoff = Backoff(base=1.0, cap=300.0)
        with self._changes.subscribe() as changed:
            while True:
                pause = CHECK_INTERVAL
                try:
                    await self._report()
                except ApiError as error:
                    pause = backoff.next()
                    remedy = " (CRD and rights: component koordinator-devices)"
                    named = remedy if isinstance(error, (Forbidden, NotFound)) else ""
                    _log.warning("node %s: its Device is not written%s, retrying: %s", self._node, named, error)
                    await asyncio.sleep(pause)
                    continue
                backoff.reset()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), pause)
                changed.clear()

    async def _report(self) -> None:
        wanted = self._driver.device_report(self._preparer.prepared_claims)
        now = asyncio.get_running_loop().time()
        if wanted is None:
            return
        last, written = self._written or (now, None)
        wanted = with_transition_times(wanted, written, now=rfc3339(SYSTEM.wall()))
        if wanted == written and now - last < REPEAT_INTERVAL:
            return
        await self._write(wanted)
        self._written = (now, wanted)

    async def _write(self, wanted: DeviceReport) -> None:
        node = await self._client.get(NODES, ("", self._node), PartialObjectMetadata)
        stored = await self._found()
        if stored is None and not wanted.devices:
            return
        if stored is not None and not MANAGED_BY.items() <= (stored.metadata.labels or {}).items():
            _log.info(
                "node %s: its Device was created by another component and stays as it is; "
                "delete it, or start the plugin without --koordinator-devices",
                self._node,
            )
            return
        before = (stored.metadata.labels if stored is not None else None) or {}
        # A null removes a label of an earlier report that this one lacks.
        changed: dict[str, str | None] = dict.fromkeys(key for key in GPU_LABELS if key in before)
        changed |= wanted.labels
        await self._label_node(node, changed)
        if stored is not None:
            await self._client.merge_patch(
                DEVICES,
                stored.metadata.key,
                {"metadata": {"labels": changed}, **_content(wanted)},
                model=PartialObjectMetadata,
                resource_version=stored.metadata.resource_version,  # it was ours when it was read
                uid=stored.metadata.uid,
            )
            return
        metadata = {
            "name": self._node,
            "labels": {**MANAGED_BY, **wanted.labels},
            "ownerReferences": [msgspec.to_builtins(node_owner_reference(self._node, node.metadata.uid))],
        }
        await self._client.create(DEVICES, {"metadata": metadata, **_content(wanted)}, model=PartialObjectMetadata)

    async def _found(self) -> PartialObjectMetadata | None:
        try:
            return await self._client.get(DEVICES, ("", self._node), PartialObjectMetadata)
        except NotFound:
            return None

    async def _label_node(self, node: PartialObjectMetadata, labels: Mapping[str, str | None]) -> None:
        present = node.metadata.labels or {}
        if all(present.get(key) == value for key, value in labels.items()):
            return
        await self._client.merge_patch(
            NODES, node.metadata.key, {"metadata": {"labels": labels}}, model=PartialObjectMetadata
        )


def _content(report: DeviceReport) -> dict[str, Any]:
    """Return spec and status; a merge patch replaces lists as a whole."""
    return {
        "spec": {"devices": [to_document(device) for device in report.devices]},
        "status": {"allocations": [to_document(allocation) for allocation in report.allocations]},
    }
