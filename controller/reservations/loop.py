"""The loop of reservations: one at a time is brought to what the engine wants."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NoReturn, Protocol

import msgspec

from controller.leadership import Leadership
from controller.queue import Queue
from controller.reservations.gates import Gates
from controller.reservations.giving import ChangedError, Giving
from controller.reservations.roster import Roster, concerns_reservations, may_concern_reservations
from controller.retries import Retries
from dra.api.configuration import Placeholders
from dra.api.reservations.model import MalformedReservationError, Phase, Reservation, read
from dra.engine.instants import NEVER, Instant
from dra.engine.reservations import lifecycle
from dra.engine.reservations.lifecycle import Ask, Dismiss, Place, Plan, Remove, Severity, Told, Unplace, WriteStatus
from dra.engine.reservations.phases import READABLE
from dra.engine.reservations.reasons import ReservationReason
from dra.engine.reservations.yielding import Nominate, Open, Welcome
from dra.kube.client import WRITE_TIMEOUT, Client, Selection
from dra.kube.clock import Clock, second_time
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from dra.kube.events import Recorder
from dra.kube.reflector import Reflector
from dra.kube.reflectors import Reflectors
from dra.kube.resources import NODES, PODS, RESERVATIONS
from dra.kube.series import Fact, Regarding
from dra.kube.series import Severity as EventSeverity
from dra.kube.store import Change, Deleted, Rewound, RewoundError, Upserted
from dra.model.meta import DynamicObject, ObjectMeta, PartialObject, Uid
from dra.model.placement import PlacedPod
from dra.telemetry.logs import flow

WORKERS: Final = 8
ROUNDS: Final = 4
"""Decisions in a row on one reservation."""

RETRY: Final = (0.2, 30.0)
RETRY_REFUSED: Final = (2.0, 60.0)
"""Seconds, first and longest, before a placeholder that was refused is tried again: quotas change by other people."""

BAD_REQUEST: Final = 400
"""A pod that the API server cannot decode: a field of the template has a value of another type."""

SETTLES: Final = 3.0
"""Seconds from an owner's binding or end to the status that says so, where owners share: one write for all of them,
and the owners of a Job come within seconds."""

RESTS: Final = 5.0
"""Seconds between two such writes of one status, as long as owners come and go."""

NODES_EVERY: Final = 5.0
"""Seconds between two looks at whether reservations have lost their nodes."""

LONGEST_SLEEP: Final = 600.0
"""Seconds after which a deadline by the time of day is looked at again: that may jump."""

ACTION: Final = "Reserve"

_log: Final = logging.getLogger(__name__)


class Listener(Protocol):
    """Who wants to know of reservations: whoever keeps their claims."""

    holds_devices: bool
    """Whether the claims of their templates can be held."""

    def observe_reservation(self, uid: Uid, reservation: Reservation, /) -> None:
        """Take in a reservation."""

    def reservation_unreadable(self, uid: Uid, /) -> None:
        """The reservation is there, and cannot be read."""

    def forget_reservation(self, uid: Uid, /) -> None:
        """The reservation is certainly gone."""

    def woken(self) -> None:
        """These were all for now."""


class _ForgottenError(Exception):
    """The watch has shown the end of a reservation since its plan was made."""


class ReservationLoop:
    """Watches reservations and their pods, decides and writes."""

    def __init__(  # noqa: PLR0913 - keyword-only: the parts it works with
        self,
        client: Client,
        *,
        recorder: Recorder,
        nodes: Reflector[Any],
        clock: Clock,
        leadership: Leadership,
        listener: Listener | None = None,
        placeholders: Placeholders = Placeholders.REPLACED,
    ) -> None:
        """``nodes`` is somebody else's reflector: which nodes there are.

        ``listener`` is told of all reservations, before anything is decided here.
        """
        self._client = client
        self._recorder = recorder
        self._nodes = nodes
        self._clock = clock
        self._leadership = leadership
        self.roster = Roster(kind=placeholders)
        self._giving = Giving(client, roster=self.roster, within=self._within)
        self._gates = Gates(self._giving, roster=self.roster, nodes=nodes, clock=clock)
        self._listener = listener
        self._acting = False
        self._queue: Queue[Uid] = Queue(clock)
        self._retries: Retries[Uid] = Retries()
        self._refusals: Retries[Uid] = Retries()
        self._reservations = Reflector(client, RESERVATIONS, DynamicObject, sink=self._take, clock=clock)
        self._reflectors = Reflectors(
            self._reservations,
            Reflector(
                client,
                PODS,
                PlacedPod,
                sink=self._take_pods,
                keep=may_concern_reservations if placeholders is Placeholders.YIELDING else concerns_reservations,
                clock=clock,
            ),
        )
        self._unreadable: dict[Uid, tuple[DynamicObject, str]] = {}
        self._written: dict[Uid, Instant] = {}
        """When each reservation's status was last written."""

    async def watch(self) -> None:
        """Watch until cancelled; raises RewoundError."""
        await self._reflectors.run()

    async def run(self) -> None:
        """Act until cancelled."""
        await self._nodes.synced.wait()
        await self._reflectors.synced()
        self._acting = True
        self.roster.dirty.update(self.roster.uids())
        self.roster.dirty.update(self._unreadable)
        self._wake()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._queue.serve(self._turn, workers=WORKERS), name="turns")
                group.create_task(self._miss_nodes(), name="nodes")
                group.create_task(self._gates.run(), name="gates")
        finally:
            self._acting = False

    async def _miss_nodes(self) -> NoReturn:
        """Look at reservations whose node is not to be seen, until cancelled: nodes are somebody else's to watch."""
        while True:
            await asyncio.sleep(NODES_EVERY)
            self.roster.dirty.update(self.roster.homeless(self._nodes.objects))
            self._wake()

    async def synced(self) -> None:
        """Wait until all reservations are known."""
        await self._reservations.synced.wait()

    def troubles(self) -> list[str]:
        """Return what keeps us from knowing reservations; empty when ready."""
        return self._reflectors.troubles()

    # What is seen

    def _take(self, changes: list[Change[DynamicObject]]) -> None:
        for change in changes:
            match change:
                case Upserted(obj=found):
                    self._observe(found)
                case Deleted(obj=found):
                    self._forget(found.metadata.uid)
                case Rewound():
                    raise RewoundError(change)
                case _:
                    pass
        self._wake()

    def _take_pods(self, changes: list[Change[PlacedPod]]) -> None:
        for change in changes:
            match change:
                case Upserted(obj=pod):
                    self.roster.observe_pod(pod)
                case Deleted(obj=pod, certain=certain):
                    self.roster.forget_pod(pod, certain=certain)
                case Rewound():
                    raise RewoundError(change)
                case _:
                    pass
        self._wake()

    def _observe(self, obj: DynamicObject) -> None:
        uid = obj.metadata.uid
        try:
            reservation = read(obj.content)
        except MalformedReservationError as error:
            self._unreadable[uid] = (obj, str(error))
            self.roster.dirty.add(uid)
            if self._listener is not None:
                self._listener.reservation_unreadable(uid)
            return
        self._unreadable.pop(uid, None)
        before = self.roster.observe(uid, obj.metadata.resource_version, reservation, now=self._clock.now())
        if self._listener is not None and before is not reservation:  # else older than what is known
            self._listener.observe_reservation(uid, reservation)
        placed = reservation.status.phase is Phase.AVAILABLE
        if placed and before is not None and before.status.phase is Phase.PENDING and self._acting:
            text = f"Successfully assigned {reservation.metadata.name} to {reservation.status.node_name}"
            self._tell(obj.metadata, Told(reason=ReservationReason.SCHEDULED, text=text))

    @property
    def _holds_devices(self) -> bool:
        return self._listener is not None and self._listener.holds_devices

    def _forget(self, uid: Uid) -> None:
        self._unreadable.pop(uid, None)
        self._written.pop(uid, None)
        self.roster.forget(uid)
        if self._listener is not None:
            self._listener.forget_reservation(uid)

    def _wake(self) -> None:
        if self._listener is not None:
            self._listener.woken()
        dirty, settling = self.roster.dirty, self.roster.settling
        if not self._acting:
            dirty.clear()
            settling.clear()
            return
        if dirty or self.roster.waiting.news:
            self._gates.wake()
        while dirty:
            self._queue.touch(dirty.pop())
        now = self._clock.now()
        while settling:
            uid = settling.pop()
            self._queue.at(uid, max(now + SETTLES, self._written.get(uid, float("-inf")) + RESTS))

    # What is done

    async def _turn(self, uid: Uid) -> float:
        found = self.roster.get(uid)
        name = found[0].metadata.name if found is not None else uid
        flow.set(f"reservation {name}")
        try:
            await self.reconcile(uid)
        except ApiError as error:
            delay = self._retries.failed(uid, RETRY)
            _log.warning("reservation %s: not done, again in %.2f s: %s", name, delay, error)
            self._queue.at(uid, self._clock.now() + delay)
        except RewoundError:
            raise
        except _ForgottenError:  # it went while its turn waited for an answer
            self._retries.succeeded(uid)
        except Exception:  # noqa: BLE001 - one reservation must not stop all others
            delay = self._retries.failed(uid, RETRY)
            _log.exception("reservation %s: cannot be decided, again in %.2f s", name, delay)
            self._queue.at(uid, self._clock.now() + delay)
        else:
            self._retries.succeeded(uid)
        self._wake()
        return 0.0

    async def reconcile(self, uid: Uid) -> None:
        """Bring one reservation to what the engine wants. Raises ApiError."""
        if uid in self._unreadable:
            await self._say_unreadable(*self._unreadable[uid])
            return
        await self._ask_again(uid)
        for _ in range(ROUNDS):
            view = self.roster.view(uid, nodes=self._nodes.objects, devices=self._holds_devices, now=self._clock.now())
            if view is None:
                return
            if view.node_gone and not await self._gone(view.reservation.status.node_name):
                view = msgspec.structs.replace(view, node_gone=False)
            wall = self._clock.wall()
            plan = lifecycle.decide(view, now=wall.timestamp())
            try:
                for action in plan.actions:
                    await self._do(uid, action)
            except ChangedError as error:
                await self._ask(uid, Ask(key=error.key, uid=error.uid))
                continue
            except Conflict:
                await self._look(uid)
                continue
            self.roster.note_short(uid, wall.timestamp() if plan.short else None)
            self._sleep(uid, plan, wall=wall)
            if view.expected:
                self._queue.at(uid, self.roster.expects_until(uid))
            if not any(isinstance(action, WriteStatus | Ask) for action in plan.actions):
                return

    async def _gone(self, node: str) -> bool:
        """Ask about a node that the watch does not show: that may be behind, and the node the newest of all."""
        only = Selection(fields=f"metadata.name={node}")
        pages = [page async for page in self._client.list_pages(NODES, PartialObject, selection=only)]
        return not any(page.items for page in pages)

    def _sleep(self, uid: Uid, plan: Plan, *, wall: datetime) -> None:
        now = self._clock.now()
        if plan.wake_at != NEVER:
            self._queue.at(uid, now + min(max(plan.wake_at - wall.timestamp(), 0.0) + 0.05, LONGEST_SLEEP))
        again, _ = self.roster.ask_again(uid)
        self._queue.at(uid, again)

    async def _ask_again(self, uid: Uid) -> None:
        again, consumers = self.roster.ask_again(uid)
        if again <= self._clock.now():
            for each in consumers:
                await self._ask(uid, Ask(key=each.key, uid=each.uid))

    async def _do(self, uid: Uid, action: lifecycle.Action) -> None:
        match action:
            case WriteStatus():
                await self._write(uid, action)
            case Place():
                await self._make(uid, action)
            case Unplace():
                try:
                    await self._client.delete(PODS, action.key, uid=action.uid, grace_seconds=0, within=self._within())
                except (NotFound, Conflict):
                    return
            case Ask():
                await self._ask(uid, action)
            case Remove():
                await self._remove(uid)
            case Nominate() | Welcome() | Open() | Dismiss():
                await self._giving.do(self._known(uid)[0], action)

    async def _write(self, uid: Uid, action: WriteStatus) -> None:
        reservation, version = self._known(uid)
        answer = await self._client.merge_patch(
            RESERVATIONS,
            ("", reservation.metadata.name),
            action.body,
            model=DynamicObject,
            subresource="status",
            resource_version=version,
            uid=uid,
            within=self._within(),
        )
        self._written[uid] = self._clock.now()
        self._observe(answer)
        for told in action.told:
            self._tell(answer.metadata, told)

    async def _make(self, uid: Uid, action: Place) -> None:
        manifest: Mapping[str, Any] = action.manifest
        try:
            made = await self._client.create(
                PODS,
                manifest,
                model=PlacedPod,
                namespace=manifest["metadata"]["namespace"],
                within=self._within(),
            )
        except AlreadyExists:
            return  # the watch will show it
        except ApiError as error:
            if not isinstance(error, Forbidden | Invalid | NotFound) and error.status != BAD_REQUEST:
                raise
            self._queue.at(uid, self._clock.now() + self._refusals.failed(uid, RETRY_REFUSED))
            self.roster.refused(uid, error.message)
            return
        self._refusals.succeeded(uid)
        self.roster.observe_pod(made)

    async def _ask(self, uid: Uid, action: Ask) -> None:
        try:
            pod: PlacedPod | None = await self._client.get(PODS, action.key, PlacedPod)
        except NotFound:
            pod = None
        if pod is not None and pod.metadata.uid != action.uid:
            pod = None
        now = self._clock.now()
        self.roster.answer(uid, action.uid, pod, now=now)
        self._queue.at(uid, self.roster.considers_again(action.uid))

    async def _remove(self, uid: Uid) -> None:
        reservation, _ = self._known(uid)
        try:
            await self._client.delete(RESERVATIONS, ("", reservation.metadata.name), uid=uid, within=self._within())
        except (NotFound, Conflict):
            return

    async def _look(self, uid: Uid) -> None:
        known = self.roster.get(uid)
        if known is None:
            return
        try:
            found = await self._client.get(RESERVATIONS, ("", known[0].metadata.name), DynamicObject)
        except NotFound:
            self._forget(uid)
            return
        if found.metadata.uid == uid:
            self._observe(found)
        else:
            self._forget(uid)

    async def _say_unreadable(self, obj: DynamicObject, text: str) -> None:
        """Tell in a condition why an object is not one of ours: nothing else is done about it."""
        status = obj.content.get("status")
        given = status.get("conditions") if isinstance(status, dict) else None
        conditions = [each for each in given or () if isinstance(each, dict)]
        before = next((each for each in conditions if each.get("type") == READABLE), {})
        if before.get("message") == text:
            return
        now = second_time(self._clock.wall())
        told = {"type": READABLE, "status": "False", "reason": ReservationReason.INVALID.value, "message": text}
        told |= {"lastProbeTime": now, "lastTransitionTime": before.get("lastTransitionTime", now)}
        rest = [each for each in conditions if each.get("type") != READABLE]
        await self._client.merge_patch(
            RESERVATIONS,
            ("", obj.metadata.name),
            {"status": {"conditions": [*rest, told]}},
            model=PartialObject,
            subresource="status",
            uid=obj.metadata.uid,
            within=self._within(),
        )
        self._tell(obj.metadata, Told(reason=ReservationReason.INVALID, text=text, severity=Severity.WARNING))

    def _known(self, uid: Uid) -> tuple[Any, str]:
        found = self.roster.get(uid)
        if found is None:
            raise _ForgottenError(uid)
        return found

    def _tell(self, metadata: ObjectMeta, told: Told) -> None:
        level = logging.WARNING if told.severity is Severity.WARNING else logging.INFO
        _log.log(level, "reservation %s: %s", metadata.name, told.text, extra={"reason": told.reason.value})
        self._recorder.record(
            Fact(
                regarding=Regarding.of(RESERVATIONS, metadata),
                reason=told.reason.value,
                action=ACTION,
                note=told.text,
                severity=EventSeverity(told.severity.value),
            )
        )

    def _within(self) -> float:
        return self._leadership.within(WRITE_TIMEOUT, now=self._clock.now())
