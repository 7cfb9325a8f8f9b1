"""The writer of pods during the handover: marks owner pods as inside, nominates pods, removes our scheduling gate."""

from typing import Any

import msgspec

from controller.metrics import ControllerMetrics
from controller.runtime import Runtime
from dra.api.reservations import well_known
from dra.engine.reservations import placeholder_handover
from dra.engine.reservations.actions import (
    ClearReservationAllocated,
    NominatePlaceholder,
    PodWrite,
    RemoveSchedulingGate,
    SetReservationAllocated,
)
from dra.engine.reservations.reservation_cache import ReservationCache, trim_pod
from dra.engine.reservations.view import AnyReservationView
from dra.kube.resources import PODS
from dra.model.scheduling import SchedulerPod


class PodWriter:
    """Patches pods and caches each response at once, since the next step is decided on it."""

    def __init__(self, runtime: Runtime[ControllerMetrics], cache: ReservationCache) -> None:
        self._runtime = runtime
        self._cache = cache

    async def apply(self, write: PodWrite, view: AnyReservationView) -> None:
        """Apply one step of the handover to its pod. Raises NotFound and Conflict if the pod has changed."""
        match write:
            case NominatePlaceholder():
                await self._nominate(write, write.node)
            case SetReservationAllocated():
                await self._set_allocated(write, view)
            case RemoveSchedulingGate():
                await self.remove_gate(write)
            case ClearReservationAllocated():
                allocated = {well_known.ANNOTATION_RESERVATION_ALLOCATED: None}
                await self._patch_metadata(write, annotations=allocated, labels={well_known.LABEL_INSIDE: None})
                await self._nominate(write, None)

    async def remove_gate(self, write: RemoveSchedulingGate) -> None:
        """Remove our scheduling gate from a pod, and no other gate. Raises NotFound and Conflict."""
        pod = await self._runtime.client.get(PODS, write.key, SchedulerPod)
        body = placeholder_handover.gate_removal_patch(pod)
        if body and pod.metadata.uid == write.uid:
            await self._patch(write, body, version=pod.metadata.resource_version)

    async def _set_allocated(self, write: SetReservationAllocated, view: AnyReservationView) -> None:
        reference = msgspec.json.encode({"name": view.name, "uid": view.uid}).decode()
        allocated = {well_known.ANNOTATION_RESERVATION_ALLOCATED: reference}
        labels = {well_known.LABEL_INSIDE: write.uid} if write.label else {}
        await self._patch_metadata(write, annotations=allocated, labels=labels)
        if write.node:
            await self._nominate(write, write.node)

    async def _patch_metadata(self, write: PodWrite, *, annotations: dict[str, Any], labels: dict[str, Any]) -> None:
        metadata = {"annotations": annotations, **({"labels": labels} if labels else {})}
        await self._patch(write, {"metadata": metadata})

    async def _nominate(self, write: PodWrite, node: str | None) -> None:
        await self._patch(write, {"status": {"nominatedNodeName": node}}, subresource="status")

    async def _patch(
        self, write: PodWrite, body: dict[str, Any], *, subresource: str | None = None, version: str | None = None
    ) -> None:
        answer = await self._runtime.client.merge_patch(
            PODS,
            write.key,
            body,
            model=SchedulerPod,
            subresource=subresource,
            resource_version=version,
            uid=write.uid,
            timeout_seconds=self._runtime.write_timeout(),
        )
        trim_pod(answer)
        self._cache.observe_pod(answer)
