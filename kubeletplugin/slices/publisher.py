"""Keeps a driver's ResourceSlices on the API server equal to its pools.

The obstacles, and how the publisher handles them:
- The kubelet deletes all slices of its node when it starts, and a driver's slices when the driver has not been
  registered for 30 s. The publisher writes them again within a second, and with a growing delay if that repeats.
- Another writer changes a slice. Two writers that correct each other would never stop, so the correction waits 30 s.
  The other instance of a rolling update is such a writer.
- The watch lags behind the publisher's own writes. The responses to the writes count until the watch catches up.
- The API server refuses a write or is unavailable: the write is retried with a backoff. Published slices stay, and
  claims are still prepared.

Requires the rights that the node authorizer grants a kubelet: its own Node (get), and the slices of its node: list and
watch with a selection by both fields; create, patch and delete.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from random import Random
from typing import Final, NoReturn

from dra.kube.backoff import JITTER, Backoff
from dra.kube.client import Client, Selection
from dra.kube.clock import SYSTEM, Clock
from dra.kube.errors import ApiError, NotFound
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.reflector import Reflector
from dra.kube.resources import NODES, SLICES
from dra.kube.store import ServerRestored
from dra.model.meta import OwnerReference, PartialObjectMetadata, Uid
from dra.model.resource_versions import is_older
from dra.model.slices import ResourceSlice
from kubeletplugin.change_broadcaster import ChangeBroadcaster
from kubeletplugin.contract import Driver, Pool
from kubeletplugin.slices.desired_slices import DesiredSlice, DriverOnNode, node_owner_reference, slices_for_pools
from kubeletplugin.slices.slice_diff import (
    FEATURE_GATES,
    AcceptedDevices,
    CreateSlice,
    DeleteSlice,
    SliceWrite,
    UpdateSlice,
    dropped_fields,
    plan_slice_writes,
)
from kubeletplugin.slices.validation import MalformedPoolError

FOREIGN_CHANGE_DELAY: Final = 30.0
"""Seconds until a foreign change is corrected; the other instance of a rolling update is gone by then."""

WIPE_BACKOFF_RESET: Final = 600.0
"""Seconds without a deletion by other writers until the backoff for deletions starts again."""

_log: Final = logging.getLogger(__name__)


class ResourceSlicePublisher:
    """The publisher of one driver's ResourceSlices on one node.

    `run` never returns and ends only by cancellation: the slices stay then, and the kubelet removes them.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, and half of them have a default
        self,
        client: Client,
        driver: Driver,
        *,
        node: str,
        changes: ChangeBroadcaster,
        pools: Callable[[], tuple[Pool, ...]] | None = None,
        clock: Clock = SYSTEM,
        random: Random | None = None,
    ) -> None:
        """Create a publisher of the driver's pools, or of what ``pools`` returns; ``changes`` announces new pools."""
        self.place = DriverOnNode(driver=driver.name, node=node)
        self.problem = ""
        """Reason why the published slices differ from the driver's pools; empty if they do not."""

        self._client = client
        self._driver = driver
        self._published_pools = pools
        self._changes = changes
        self._clock = clock
        self._failure_backoff = Backoff(base=0.5, cap=30.0, random=random or JITTER)
        self._wipe_backoff = Backoff(base=1.0, cap=60.0, random=random or JITTER)
        self._wiped_at = 0.0
        self._next_attempt_at: float | None = 0.0
        self._written = False
        """Whether the last attempt succeeded; false during an attempt."""

        self._was_written = False
        """Whether an attempt has ever succeeded."""

        self._own: dict[str, str] = {}
        """Name → resource version of the slices that this attempt wrote."""

        self._unattributed: dict[str, str] = {}
        """Name → resource version of the slices that the watch has shown during this attempt.

        They are either the attempt's own writes, whose response is pending, or those of another writer.
        """

        self._wake = asyncio.Event()
        self._owner: OwnerReference | None = None
        self._answers: dict[str, ResourceSlice] = {}
        """Responses to the publisher's own writes, by name, until the watch has caught up."""

        self._deleted: set[Uid] = set()
        """Uids of slices that the publisher has deleted and the watch still shows."""

        self._accepted: dict[str, AcceptedDevices] = {}
        fields = f"spec.nodeName={node},spec.driver={driver.name}"
        self._reflector = Reflector(
            client,
            SLICES,
            ResourceSlice,
            handler=EventHandlerFuncs(
                on_upsert=self._on_slice, on_delete=self._on_slice_deleted, on_restore=self._on_server_restored
            ),
            selection=Selection(fields=fields),
            clock=clock,
            random=random,
        )

    @property
    def synced(self) -> bool:
        """Whether the published slices equal the driver's pools."""
        return self._written and not self.problem and self._next_attempt_at is None

    def not_ready_reasons(self) -> list[str]:
        """Return the reasons why the slices are not up to date; empty if there are none."""
        if self._reflector.failure is not None:
            return [f"{self.place}: {self._reflector.failure}"]
        if not (self._was_written or self.problem):
            return [f"{self.place}: ResourceSlices are not published yet"]
        return [self.problem] if self.problem else []

    def found(self) -> list[ResourceSlice]:
        """Return the published slices, from the watch and the responses to the publisher's own writes."""
        there = {resource_slice.metadata.name: resource_slice for resource_slice in self._reflector.objects.values()}
        reached = self._reflector.resource_version
        for name, answer in list(self._answers.items()):
            if reached and not is_older(reached, answer.metadata.resource_version):
                del self._answers[name]
            else:
                there[name] = answer
        self._deleted &= {resource_slice.metadata.uid for resource_slice in there.values()}
        return [resource_slice for resource_slice in there.values() if resource_slice.metadata.uid not in self._deleted]

    async def run(self) -> NoReturn:
        """Publish the slices until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run(), name=f"reflect {self.place}")
            group.create_task(self._follow(), name=f"changes of {self.place}")
            await self._reflector.synced.wait()
            while True:
                await self._wait_until_due()
                await self._attempt()
        raise AssertionError("unreachable")  # the loop above has no end

    async def _follow(self) -> NoReturn:
        with self._changes.subscribe() as changed:
            while True:
                await changed.wait()
                changed.clear()
                self._schedule_in(0.0)

    def _schedule_in(self, seconds: float) -> None:
        at = self._clock.now() + seconds
        if self._next_attempt_at is None or at < self._next_attempt_at:
            self._next_attempt_at = at
            self._wake.set()

    async def _wait_until_due(self) -> None:
        while self._next_attempt_at is None or self._next_attempt_at > self._clock.now():
            self._wake.clear()
            delay = None if self._next_attempt_at is None else self._next_attempt_at - self._clock.now()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), delay)
        self._next_attempt_at = None

    async def _attempt(self) -> None:
        self._written = False
        self._own.clear()
        self._unattributed.clear()
        try:
            written = await self._publish()
        except MalformedPoolError as error:  # no retry until the driver's pools change
            self._failed(f"{error}; the published ResourceSlices stay unchanged")
        except ApiError as error:
            self._failed(f"{self.place}: ResourceSlices are not published: {error}")
            self._schedule_in(max(self._failure_backoff.next(), error.retry_after or 0.0))
        except Exception as error:  # noqa: BLE001 - a driver may be anybody's
            _log.exception("%s: ResourceSlices are not published", self.place)
            self.problem = f"{self.place}: ResourceSlices are not published: {error!r}"
            self._schedule_in(self._failure_backoff.next())
        else:
            if written or self.problem:
                _log.info("%s: published ResourceSlices: %d", self.place, len(self.found()))
            self.problem = ""
            self._written = self._was_written = True
            self._failure_backoff.reset()
            if any(self._own.get(name) != version for name, version in self._unattributed.items()):
                self._schedule_in(FOREIGN_CHANGE_DELAY)

    def _failed(self, text: str) -> None:
        _log.log(logging.ERROR if text != self.problem else logging.DEBUG, "%s", text)  # once, not at every attempt
        self.problem = text

    async def _publish(self) -> int:
        """Write the differences to the API server; return the number of writes."""
        pieces = slices_for_pools((self._published_pools or self._driver.pools)(), driver=self.place.driver)
        if self._owner is not None and not self._planned(pieces, self._owner):
            return 0
        node = await self._client.get(NODES, ("", self.place.node), PartialObjectMetadata)
        self._owner = node_owner_reference(
            self.place.node, node.metadata.uid
        )  # the Node may have been deleted and created again
        plan = self._planned(pieces, self._owner)
        for write in plan:
            await self._write(write, self._owner)
        return len(plan)

    def _planned(self, pieces: tuple[DesiredSlice, ...], owning: OwnerReference) -> tuple[SliceWrite, ...]:
        return plan_slice_writes(self.found(), pieces, owner=owning, accepted=self._accepted)

    async def _write(self, write: SliceWrite, owning: OwnerReference) -> None:
        match write:
            case DeleteSlice(found=resource_slice):
                self._deleted.add(resource_slice.metadata.uid)  # the watch may be faster than the response
                try:
                    await self._client.delete(SLICES, resource_slice.metadata.key, uid=resource_slice.metadata.uid)
                except NotFound:
                    pass
                except ApiError:
                    self._deleted.discard(resource_slice.metadata.uid)
                    raise
                self._answers.pop(resource_slice.metadata.name, None)
                self._accepted.pop(resource_slice.metadata.name, None)
            case UpdateSlice(found=resource_slice, piece=piece):
                answer = await self._client.merge_patch(
                    SLICES,
                    resource_slice.metadata.key,
                    write.body(self.place, owning),
                    model=ResourceSlice,
                    resource_version=resource_slice.metadata.resource_version,
                    uid=resource_slice.metadata.uid,
                )
                self._answered(answer, piece)
            case CreateSlice(piece=piece):
                answer = await self._client.create(SLICES, write.body(self.place, owning), model=ResourceSlice)
                self._answered(answer, piece)

    def _answered(self, answer: ResourceSlice, piece: DesiredSlice) -> None:
        name, kept = answer.metadata.name, tuple(answer.spec.devices or ())
        self._answers[name] = answer
        self._own[name] = answer.metadata.resource_version
        self._accepted.pop(name, None)
        missing = dropped_fields(piece.devices, kept)
        if not missing:
            return
        self._accepted[name] = AcceptedDevices(sent=piece.devices, kept=kept)
        for field, device in missing.items():
            feature = f"; its feature gate {FEATURE_GATES[field]} is disabled" if field in FEATURE_GATES else ""
            _log.warning(
                "ResourceSlice %s: device %s: the API server has dropped the field %s%s", name, device, field, feature
            )

    def _on_slice(self, resource_slice: ResourceSlice) -> None:
        name, version = resource_slice.metadata.name, resource_slice.metadata.resource_version
        answer = self._answers.get(name)
        if answer is not None and answer.metadata.resource_version == version:
            return
        if self._written:
            self._schedule_in(FOREIGN_CHANGE_DELAY)
        else:
            self._unattributed[name] = version

    def _on_slice_deleted(self, resource_slice: ResourceSlice) -> None:
        self._accepted.pop(resource_slice.metadata.name, None)
        if resource_slice.metadata.uid not in self._deleted:
            self._on_foreign_delete()

    def _on_server_restored(self, _: ServerRestored) -> None:
        """Discard the responses to writes that the restored API server has lost, and publish again."""
        self._answers.clear()
        self._schedule_in(0.0)

    def _on_foreign_delete(self) -> None:
        """Schedule a write after a deletion by another writer.

        A wipe deletes many slices: the first deletion sets the time.
        """
        now = self._clock.now()
        if self._next_attempt_at is not None and self._next_attempt_at <= self._wiped_at:
            return
        if now - self._wiped_at > WIPE_BACKOFF_RESET:
            self._wipe_backoff.reset()
        delay = self._wipe_backoff.next()
        self._wiped_at = now + delay
        self._schedule_in(delay)
