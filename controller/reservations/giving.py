"""What is written to pods when placeholders give way: who is inside, for which node, and that our gate is open."""

from collections.abc import Callable
from typing import Any

import msgspec

from controller.reservations.roster import Roster
from dra.api.reservations.model import Reservation
from dra.engine.reservations import marks
from dra.engine.reservations.lifecycle import Dismiss
from dra.engine.reservations.yielding import Nominate, Open, Welcome
from dra.kube.client import Client
from dra.kube.errors import Conflict, NotFound
from dra.kube.resources import PODS
from dra.model.meta import Key, Uid
from dra.model.placement import PlacedPod


class ChangedError(Exception):
    """A pod is not what was decided on; it is to be read."""

    def __init__(self, key: Key, uid: Uid) -> None:
        super().__init__(f"pod {key[0]}/{key[1]}: is gone, or another one")
        self.key, self.uid = key, uid


class Giving:
    """Writes to pods. What is answered is known at once: the next move is decided on it."""

    def __init__(self, client: Client, *, roster: Roster, within: Callable[[], float]) -> None:
        """``within``: how long a write may take."""
        self._client = client
        self._roster = roster
        self._within = within

    async def do(self, reservation: Reservation, move: Nominate | Welcome | Open | Dismiss) -> None:
        """Make a move. Raises ChangedError, and ApiError."""
        try:
            match move:
                case Nominate():
                    await self._nominate(move, reservation.status.node_name)
                case Welcome():
                    await self._welcome(move, reservation)
                case Open():
                    await self.open(move)
                case Dismiss():
                    await self._mark(move, annotations={marks.ALLOCATED: None}, labels={marks.INSIDE: None})
                    await self._nominate(move, None)
        except (NotFound, Conflict) as error:
            raise ChangedError(move.key, move.uid) from error

    async def open(self, move: Open) -> None:
        """Take our gate off, and no other one. Raises NotFound and Conflict."""
        pod = await self._client.get(PODS, move.key, PlacedPod)
        if pod.metadata.uid != move.uid or marks.GATE not in pod.gates:
            return
        rest = [{"name": name} for name in pod.gates if name != marks.GATE]
        answer = await self._client.merge_patch(
            PODS,
            move.key,
            {"spec": {"schedulingGates": rest or None}},
            model=PlacedPod,
            resource_version=pod.metadata.resource_version,
            uid=move.uid,
            within=self._within(),
        )
        self._roster.observe_pod(answer)

    async def _welcome(self, move: Welcome, reservation: Reservation) -> None:
        told = {"name": reservation.metadata.name, "uid": reservation.metadata.uid}
        allocated = {marks.ALLOCATED: msgspec.json.encode(told).decode()}
        await self._mark(move, annotations=allocated, labels={marks.INSIDE: move.uid} if move.label else {})
        if move.nominate:
            await self._nominate(move, reservation.status.node_name)

    async def _mark(self, move: Welcome | Dismiss, *, annotations: dict[str, Any], labels: dict[str, Any]) -> None:
        answer = await self._client.merge_patch(
            PODS,
            move.key,
            {"metadata": {"annotations": annotations, **({"labels": labels} if labels else {})}},
            model=PlacedPod,
            uid=move.uid,
            within=self._within(),
        )
        self._roster.observe_pod(answer)

    async def _nominate(self, move: Nominate | Welcome | Dismiss, node: str | None) -> None:
        answer = await self._client.merge_patch(
            PODS,
            move.key,
            {"status": {"nominatedNodeName": node}},
            model=PlacedPod,
            subresource="status",
            uid=move.uid,
            within=self._within(),
        )
        self._roster.observe_pod(answer)
