"""The writer of pods during the handover: marks owner pods as inside, nominates pods, removes our scheduling gate."""

from collections.abc import Callable
from typing import Any

import msgspec

from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.engine.reservations.actions import ClearReservationAllocated
from dra.engine.reservations.placeholder_handover import (
    NominatePlaceholder,
    RemoveSchedulingGate,
    SetReservationAllocated,
)
from dra.engine.reservations.reservation_cache import ReservationCache
from dra.kube.client import Client
from dra.kube.errors import Conflict, NotFound
from dra.kube.resources import PODS
from dra.model.meta import Key, Uid
from dra.model.scheduling import SchedulerPod


class StalePodError(Exception):
    """A pod has changed since the decision and must be read again."""

    def __init__(self, key: Key, uid: Uid) -> None:
        super().__init__(f"pod {key[0]}/{key[1]}: was deleted or replaced")
        self.key, self.uid = key, uid


class PodWriter:
    """Patches pods and caches each response at once, since the next step is decided on it."""

    def __init__(self, client: Client, *, cache: ReservationCache, write_timeout: Callable[[], float]) -> None:
        """Create the writer; ``write_timeout`` returns the timeout of a write in seconds."""
        self._client = client
        self._cache = cache
        self._write_timeout = write_timeout

    async def apply(
        self,
        reservation: Reservation,
        step: NominatePlaceholder | SetReservationAllocated | RemoveSchedulingGate | ClearReservationAllocated,
    ) -> None:
        """Apply one step of the handover to its pod. Raises StalePodError and ApiError."""
        try:
            match step:
                case NominatePlaceholder():
                    await self._nominate(step, reservation.status.node_name)
                case SetReservationAllocated():
                    await self._set_allocated(step, reservation)
                case RemoveSchedulingGate():
                    await self.remove_gate(step)
                case ClearReservationAllocated():
                    await self._patch_metadata(
                        step,
                        annotations={well_known.ANNOTATION_RESERVATION_ALLOCATED: None},
                        labels={well_known.LABEL_INSIDE: None},
                    )
                    await self._nominate(step, None)
        except (NotFound, Conflict) as error:
            raise StalePodError(step.key, step.uid) from error

    async def remove_gate(self, step: RemoveSchedulingGate) -> None:
        """Remove our scheduling gate from a pod, and no other gate. Raises NotFound and Conflict."""
        pod = await self._client.get(PODS, step.key, SchedulerPod)
        if pod.metadata.uid != step.uid or well_known.SCHEDULING_GATE not in pod.gates:
            return
        rest = [{"name": name} for name in pod.gates if name != well_known.SCHEDULING_GATE]
        answer = await self._client.merge_patch(
            PODS,
            step.key,
            {"spec": {"schedulingGates": rest or None}},
            model=SchedulerPod,
            resource_version=pod.metadata.resource_version,
            uid=step.uid,
            timeout_seconds=self._write_timeout(),
        )
        self._cache.observe_pod(answer)

    async def _set_allocated(self, step: SetReservationAllocated, reservation: Reservation) -> None:
        reference = {"name": reservation.metadata.name, "uid": reservation.metadata.uid}
        allocated = {well_known.ANNOTATION_RESERVATION_ALLOCATED: msgspec.json.encode(reference).decode()}
        await self._patch_metadata(
            step, annotations=allocated, labels={well_known.LABEL_INSIDE: step.uid} if step.label else {}
        )
        if step.nominate:
            await self._nominate(step, reservation.status.node_name)

    async def _patch_metadata(
        self,
        step: SetReservationAllocated | ClearReservationAllocated,
        *,
        annotations: dict[str, Any],
        labels: dict[str, Any],
    ) -> None:
        answer = await self._client.merge_patch(
            PODS,
            step.key,
            {"metadata": {"annotations": annotations, **({"labels": labels} if labels else {})}},
            model=SchedulerPod,
            uid=step.uid,
            timeout_seconds=self._write_timeout(),
        )
        self._cache.observe_pod(answer)

    async def _nominate(
        self, step: NominatePlaceholder | SetReservationAllocated | ClearReservationAllocated, node: str | None
    ) -> None:
        answer = await self._client.merge_patch(
            PODS,
            step.key,
            {"status": {"nominatedNodeName": node}},
            model=SchedulerPod,
            subresource="status",
            uid=step.uid,
            timeout_seconds=self._write_timeout(),
        )
        self._cache.observe_pod(answer)
