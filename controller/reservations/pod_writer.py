"""The writer of pods during the handover: marks owner pods as inside, nominates pods, removes our scheduling gate."""

from collections.abc import Callable
from typing import Any

import msgspec

from controller.reservations.reservation_cache import ReservationCache
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.engine.reservations.lifecycle import ClearReservationAllocated
from dra.engine.reservations.placeholder_handover import (
    NominatePlaceholder,
    RemoveSchedulingGate,
    SetReservationAllocated,
)
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

    def __init__(self, client: Client, *, roster: ReservationCache, within: Callable[[], float]) -> None:
        """Create the writer; ``within`` returns the timeout of a write in seconds."""
        self._client = client
        self._roster = roster
        self._within = within

    async def do(
        self,
        reservation: Reservation,
        move: NominatePlaceholder | SetReservationAllocated | RemoveSchedulingGate | ClearReservationAllocated,
    ) -> None:
        """Apply one step of the handover to its pod. Raises StalePodError and ApiError."""
        try:
            match move:
                case NominatePlaceholder():
                    await self._nominate(move, reservation.status.node_name)
                case SetReservationAllocated():
                    await self._welcome(move, reservation)
                case RemoveSchedulingGate():
                    await self.open(move)
                case ClearReservationAllocated():
                    await self._mark(
                        move,
                        annotations={well_known.ANNOTATION_RESERVATION_ALLOCATED: None},
                        labels={well_known.LABEL_INSIDE: None},
                    )
                    await self._nominate(move, None)
        except (NotFound, Conflict) as error:
            raise StalePodError(move.key, move.uid) from error

    async def open(self, move: RemoveSchedulingGate) -> None:
        """Remove our scheduling gate from a pod, and no other gate. Raises NotFound and Conflict."""
        pod = await self._client.get(PODS, move.key, SchedulerPod)
        if pod.metadata.uid != move.uid or well_known.SCHEDULING_GATE not in pod.gates:
            return
        rest = [{"name": name} for name in pod.gates if name != well_known.SCHEDULING_GATE]
        answer = await self._client.merge_patch(
            PODS,
            move.key,
            {"spec": {"schedulingGates": rest or None}},
            model=SchedulerPod,
            resource_version=pod.metadata.resource_version,
            uid=move.uid,
            within=self._within(),
        )
        self._roster.observe_pod(answer)

    async def _welcome(self, move: SetReservationAllocated, reservation: Reservation) -> None:
        told = {"name": reservation.metadata.name, "uid": reservation.metadata.uid}
        allocated = {well_known.ANNOTATION_RESERVATION_ALLOCATED: msgspec.json.encode(told).decode()}
        await self._mark(move, annotations=allocated, labels={well_known.LABEL_INSIDE: move.uid} if move.label else {})
        if move.nominate:
            await self._nominate(move, reservation.status.node_name)

    async def _mark(
        self,
        move: SetReservationAllocated | ClearReservationAllocated,
        *,
        annotations: dict[str, Any],
        labels: dict[str, Any],
    ) -> None:
        answer = await self._client.merge_patch(
            PODS,
            move.key,
            {"metadata": {"annotations": annotations, **({"labels": labels} if labels else {})}},
            model=SchedulerPod,
            uid=move.uid,
            within=self._within(),
        )
        self._roster.observe_pod(answer)

    async def _nominate(
        self, move: NominatePlaceholder | SetReservationAllocated | ClearReservationAllocated, node: str | None
    ) -> None:
        answer = await self._client.merge_patch(
            PODS,
            move.key,
            {"status": {"nominatedNodeName": node}},
            model=SchedulerPod,
            subresource="status",
            uid=move.uid,
            within=self._within(),
        )
        self._roster.observe_pod(answer)
