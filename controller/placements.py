"""Answers rule 9's questions from live reads: where pods could run that wait for an allocated claim.

Nobody watches what this needs (the pods of all nodes, all devices, device classes): a question comes up only where pods
have been unschedulable for a while. So questions are collected, and one read serves all of them. Between two reads
passes at least `PAUSE`, and several times what the last one took: many stuck claims cost the API server no more than
one does.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from dra.cel import losses
from dra.engine.actions import LookUpPlacements
from dra.engine.allocate import Inventory, Shares, UnsatisfiableError
from dra.engine.claims.placements import Picture, Search
from dra.engine.claims.view import Placements
from dra.engine.fit import Room, amounts_of
from dra.engine.reservations.amounts import ONE, Amounts
from dra.engine.world import World
from dra.kube.client import EVERYTHING, Client, Selection
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.kube.limits import Priority
from dra.kube.resources import CLASSES, NODES, PODS, SLICES
from dra.model.claims import ResourceClaim
from dra.model.classes import DeviceClass
from dra.model.constraints import ConstrainedPod
from dra.model.meta import Key, Uid
from dra.model.placement import Host, PlacedPod
from dra.model.slices import ResourceSlice

PAUSE: Final = 5.0
"""Seconds between two reads at least."""

SHARE: Final = 4.0
"""A pause is this many times as long as the read before it: reading takes a fifth of the time at most."""

PIECE: Final = 0.02
"""Seconds of work after which everything else of the process gets as long: users write selectors that take long, and
there may be thousands of nodes."""

WORK: Final = 10.0
"""Seconds of work for one question at most, and for a round: what is not asked by then is asked in the next one."""

LOST: Final = 128 << 20
LOST_BY_NAMESPACE: Final = 32 << 20
"""Bytes that selectors may lose (`dra.cel.losses`), for all questions and for those of one namespace, as long as the
process lives: 65,000 comparisons of quantities, and 16,000."""

_LOST: Final = "selectors with quantities, versions or addresses have used up their memory until the next start"


ONE_BY_ONE: Final = 16
"""Nodes whose pods are read node by node; for more of them, all pods of the cluster are read at once."""

_BOUND_AND_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"

_log: Final = logging.getLogger(__name__)


class _TooMuchError(Exception):
    """A search takes too long."""


class PlacementReader:
    """Takes questions, and tells the world the answers."""

    def __init__(self, client: Client, *, world: World, clock: Clock, woken: Callable[[], None]) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._woken = woken
        self._questions: dict[Key, LookUpPlacements] = {}
        self._worked: dict[str, float] = {}
        """Namespace → seconds of work that its questions have taken; halved in each round."""

        self._lost: dict[str, int] = {}
        """Namespace → bytes that selectors have lost for its questions."""

        self._asked = asyncio.Event()

    def ask(self, question: LookUpPlacements) -> None:
        """Take a question; an earlier one about the same claim is void."""
        self._questions[question.claim] = question
        self._asked.set()

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            # Who has asked for less work lately comes first: what is left of a round is for the next one.
            questions = sorted(self._questions.values(), key=lambda question: self._worked.get(question.claim[0], 0.0))
            began = self._clock.now()
            try:
                await self._answer(questions)
            except ApiError as error:
                _log.warning("where waiting pods could run was not to be found out: %s", error)
                for question in questions:
                    self._done(question)
                    self._tell(question, fault=str(error))
            if self._questions:
                self._asked.set()
            self._woken()
            await asyncio.sleep(max(PAUSE, SHARE * (self._clock.now() - began)))

    async def _answer(self, questions: Iterable[LookUpPlacements]) -> None:
        picture = await self._picture()
        self._worked = {namespace: worked / 2 for namespace, worked in self._worked.items() if worked > PIECE}
        waiting: dict[str, dict[Uid, ConstrainedPod]] = {}
        searches: list[Search] = []
        wanted: set[str] = set()
        left = WORK
        for question in questions:
            if left <= 0.0:
                break
            self._done(question)
            claim = self._world.claim(question.claim)
            if claim is None or claim.status.allocation is None:
                continue
            namespace = question.claim[0]
            if namespace not in waiting:
                waiting[namespace] = await self._unbound(namespace)
            pods = [pod for uid in question.pods if (pod := waiting[namespace].get(uid)) is not None]
            before = self._worked.get(namespace, 0.0)
            try:
                search = await self._find(claim, pods, picture)
            except (UnsatisfiableError, _TooMuchError) as error:
                self._tell(question, fault=str(error))
            except Exception as error:  # noqa: BLE001 - what one tenant has written must not end the answers for others
                _log.exception("claim %s/%s: placements cannot be found", *question.claim)
                self._tell(question, fault=f"{type(error).__name__}, see the controller's log")
            else:
                wanted |= search.nodes()
                searches.append(search)
            left -= self._worked.get(namespace, 0.0) - before
        await self._fill(picture, wanted)
        for search in searches:
            self._world.observe_placements(search.claim, search.placements(at=self._clock.now()))

    async def _find(self, claim: ResourceClaim, pods: Iterable[ConstrainedPod], picture: Picture) -> Search:
        """Run a search, and leave others as much time as it takes. Raises UnsatisfiableError, _TooMuchError."""
        namespace, work = claim.metadata.namespace, 0.0
        began, lost = self._clock.now(), losses.lost()

        async def pause() -> None:
            nonlocal work, began
            piece = self._clock.now() - began
            work += piece
            self._worked[namespace] = self._worked.get(namespace, 0.0) + piece
            await asyncio.sleep(piece)
            began = self._clock.now()

        try:
            search = Search(claim, pods, picture=picture, claim_of=self._world.claim)
            if search.loses and self._lost_too_much(namespace):
                raise _TooMuchError(_LOST)
            with contextlib.closing(search.steps()) as steps:
                for _ in steps:
                    if losses.lost() > lost:
                        self._lost[namespace] = self._lost.get(namespace, 0) + losses.lost() - lost
                        lost = losses.lost()
                        if self._lost_too_much(namespace):
                            raise _TooMuchError(_LOST)
                    if self._clock.now() - began < PIECE:
                        continue
                    await pause()
                    if work >= WORK:
                        raise _TooMuchError(f"to look for devices and nodes takes more than {WORK:.0f} s")
        finally:
            await pause()
        return search

    def _lost_too_much(self, namespace: str) -> bool:
        return self._lost.get(namespace, 0) > LOST_BY_NAMESPACE or losses.lost() > LOST

    def _done(self, question: LookUpPlacements) -> None:
        """Forget a question, unless another one about the same claim has come meanwhile."""
        if self._questions.get(question.claim) is question:
            del self._questions[question.claim]

    def _tell(self, question: LookUpPlacements, *, fault: str) -> None:
        claim = self._world.claim(question.claim)
        if claim is not None and claim.status.allocation is not None:
            found = Placements(
                allocation=claim.status.allocation,
                at=self._clock.now(),
                pods=frozenset(question.pods),
                fault=f"where else they could run is not known: {fault}",
            )
            self._world.observe_placements(question.claim, found)

    async def _picture(self) -> Picture:
        """Read nodes, devices and classes; who has which device is what the world knows."""
        rooms: dict[str, Room] = {}
        async for hosts in self._client.list_pages(NODES, Host, priority=Priority.BULK):
            for host in hosts.items:
                if host.ready and not host.metadata.deleting:
                    room = rooms[host.metadata.name] = Room(host.metadata.name)
                    room.observe(host)
        inventory = Inventory()
        for rule in self._world.taints.rules:
            inventory.observe_rule(rule)
        async for slices in self._client.list_pages(SLICES, ResourceSlice, priority=Priority.BULK):
            for each in slices.items:
                inventory.observe(each)
        classes: dict[str, DeviceClass] = {}
        async for found in self._client.list_pages(CLASSES, DeviceClass, priority=Priority.BULK):
            classes |= {each.metadata.name: each for each in found.items}
        return Picture(rooms, inventory, classes, self._world.ledger, self._shares(), taints=self._world.taints)

    def _shares(self) -> Shares:
        found = Shares()
        for claim in self._world.claims():
            found.put(claim.metadata.uid, claim.status.allocation)
        return found

    async def _unbound(self, namespace: str) -> dict[Uid, ConstrainedPod]:
        selection = Selection(namespace=namespace, fields=f"spec.nodeName=,{_BOUND_AND_UNFINISHED}")
        found: dict[Uid, ConstrainedPod] = {}
        pages = self._client.list_pages(PODS, ConstrainedPod, selection=selection, priority=Priority.BULK)
        async for page in pages:
            found |= {pod.metadata.uid: pod for pod in page.items}
        return found

    async def _fill(self, picture: Picture, names: set[str]) -> None:
        """Put the pods of some nodes into their rooms, and what Reservations hold there."""
        selections = (
            [EVERYTHING] if len(names) > ONE_BY_ONE else [Selection(fields=f"spec.nodeName={n}") for n in names]
        )
        for selection in selections:
            async for page in self._client.list_pages(PODS, PlacedPod, selection=selection, priority=Priority.BULK):
                for pod in page.items:
                    room = picture.rooms.get(pod.spec.node_name)
                    if room is not None and not pod.terminal:
                        room.add(pod.metadata.uid, amounts_of(pod))
        for holding in self._world.holders.available():
            room = picture.rooms.get(holding.node)
            if room is not None and room.name in names:
                room.add(holding.uid, _left(room, holding.amounts, holding.listed))


def _left(room: Room, held: Amounts, consumers: Iterable[Uid]) -> dict[str, int]:
    """Return what a Reservation holds beyond what its consumers have, in the units of rooms; nobody else gets that."""
    used = [room.pods[uid] for uid in consumers if uid in room.pods]
    left = {
        resource: amount * (1000 if resource == "cpu" else 1) // ONE - sum(each.get(resource, 0) for each in used)
        for resource, amount in held.items()
    }
    return {resource: amount for resource, amount in left.items() if amount > 0}
