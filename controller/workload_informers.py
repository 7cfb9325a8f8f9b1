"""The informers of the objects that claims are reserved for: any kind, from the first reference by a claim on.

Objects of a kind with a release rule are watched in full and evaluated by the rule; of all other kinds only the
metadata is requested, since only existence counts. An object that may not be read is in doubt, and a claim whose
workload is in doubt stays reserved.

A user with write access can make such an object a megabyte large, whose decoding and rule take a second, and write it
ten times a second. So large objects are evaluated one after the other, each in its state at that time, for half of the
time at most.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from controller.metrics import ControllerMetrics
from controller.runtime import Runtime
from dra.cel.object_rules import WorkloadRules
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.kube.backoff import Backoff
from dra.kube.codec import ApiObject
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.fair_queue import FairQueue
from dra.kube.reflector import Reflector
from dra.kube.resources import Resource
from dra.kube.shared_informers import SharedInformers
from dra.kube.store import Synced
from dra.model.meta import PartialObjectMetadata, RawObject, Uid
from dra.model.references import GroupResource
from dra.requests.workload_reader import ForbiddenKinds, WorkloadReader

M = TypeVar("M", bound=ApiObject)

RETRY: Final = (5.0, 60.0)
"""Seconds, minimum and maximum, between discoveries of a kind that is not served: CRDs may be installed later."""

RESOLVE_INTERVAL: Final = 0.2
"""Seconds between repeated discoveries of any kinds that were not served before."""

PARALLEL_RESOLVES: Final = 8
"""Maximum number of kinds that are resolved concurrently: a user who may create claims can name kinds faster than an
API server reports that they do not exist."""

LARGE_OBJECT_BYTES: Final = 16 << 10
"""Bytes of an object above which its evaluation is queued."""

LARGE_OBJECT_RETRY: Final = 1.0
"""Seconds until a large object that could not be read is read again."""

LARGE_OBJECT_QUEUE_MAX: Final = 10_000
"""Maximum number of queued large objects.

Beyond it, one object of the namespace with the most queued objects counts as unfinished, without an evaluation.
"""

_log: Final = logging.getLogger(__name__)


class WorkloadInformers:
    """One reflector for each kind that claims refer to."""

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: SharedInformers,
        *,
        cache: ClaimCache,
        rules: Mapping[GroupResource, WorkloadRules],
    ) -> None:
        self._runtime = runtime
        self._informers = informers
        self._cache = cache
        self.reader = WorkloadReader(runtime.client, cache=cache, rules=rules, clock=runtime.clock)
        self._started = False
        self._forbidden_watches = ForbiddenKinds()
        self._watching: dict[GroupResource, asyncio.Task[None]] = {}
        self._wanted: frozenset[GroupResource] = frozenset()
        self._resolve_slots = asyncio.Semaphore(PARALLEL_RESOLVES)
        self._resolve_lock = asyncio.Lock()
        self._resources: dict[GroupResource, Resource] = {}
        """Resources of the watched kinds."""

        self._large_queue: FairQueue[WorkloadKey] = FairQueue(LARGE_OBJECT_QUEUE_MAX)
        self._large_queued: set[WorkloadKey] = set()
        """The keys in `_large_queue`, for membership tests."""

        self._large = asyncio.Event()
        self._large_object_task: asyncio.Task[None] | None = None
        informers.on_batch_end(self.sync_kinds)

    def start(self) -> None:
        """Watch the kinds that claims refer to, from now on: a standby watches none."""
        self._started = True
        self.sync_kinds()

    def sync_kinds(self) -> None:
        """Watch the kinds that claims refer to, at most `workload_kinds.KINDS_PER_NAMESPACE` per namespace."""
        if not self._started:
            return
        wanted = self._cache.workloads.kinds()
        if wanted is self._wanted:
            return
        self._wanted = wanted
        for kind in wanted - self._watching.keys():
            self._watching[kind] = asyncio.create_task(self._watch(kind), name=f"watch {kind}")
        for kind in self._watching.keys() - wanted:
            self._watching.pop(kind).cancel()
            self._cache.workloads.forget_kind(kind)

    async def close(self) -> None:
        """Stop the watches of all kinds."""
        tasks = [*self._watching.values(), *([self._large_object_task] if self._large_object_task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, kind: GroupResource) -> None:
        backoff = Backoff(base=RETRY[0], cap=RETRY[1])
        resolve: Callable[[GroupResource], Awaitable[Resource | None]] = self._resolve_first
        while True:
            try:
                resource = await resolve(kind)
                if resource is not None and resource.namespaced:
                    await self._reflect(kind, resource)
                    self._cache.workloads.forget_kind(kind)
                    backoff.reset()
                else:
                    self._set_phase(kind, WorkloadPhase.NO_KIND)
            except ApiError as error:
                _log.warning("workloads %s: API discovery failed, retrying (%s)", kind, error)
            except Exception:  # noqa: BLE001 - one kind must not stop all others, nor end unnoticed
                _log.exception("workloads %s: watch failed, retrying soon", kind)
                self._cache.workloads.forget_kind(kind)
            await asyncio.sleep(backoff.next())
            resolve = self._resolve_in_turn

    async def _resolve_first(self, kind: GroupResource) -> Resource | None:
        """Discover a kind, at most `PARALLEL_RESOLVES` at a time."""
        async with self._resolve_slots:
            return await self.reader.discovery.resolve(kind)

    async def _resolve_in_turn(self, kind: GroupResource) -> Resource | None:
        """Discover a kind again, one kind at a time: a user who may create claims can invent ten thousand kinds."""
        async with self._resolve_lock:
            await asyncio.sleep(RESOLVE_INTERVAL)
            return await self.reader.discovery.resolve(kind)

    async def _reflect(self, kind: GroupResource, resource: Resource) -> None:
        """Watch the kind until its CRD is gone."""
        self._resources[kind] = resource

        def on_sync(_: Synced) -> None:
            if self.reader.is_readable(kind):
                self._cache.workloads.observe_kind(kind, WorkloadPhase.ABSENT)
            self._cache.workloads.listed(kind, reflector.objects.keys())

        def reflector_of(model: type[M], observe: Callable[[WorkloadKey, M], None]) -> Reflector[M]:
            handler = EventHandlerFuncs[M](
                on_upsert=lambda workload: observe(_key_of(kind, workload), workload),
                on_delete=lambda workload: self._cache.workloads.forget(_key_of(kind, workload), workload.metadata.uid),
                on_leave=ignore,
                on_sync=on_sync,
                on_restore=ignore,
                on_batch_end=self._informers.notify,
            )
            return Reflector(self._runtime.client, resource, model, handler=handler, clock=self._runtime.clock)

        reflector: Reflector[RawObject] | Reflector[PartialObjectMetadata] = (
            reflector_of(RawObject, self._observe_raw)
            if self.reader.has_rules(kind)
            else reflector_of(PartialObjectMetadata, self.reader.observe)
        )
        running = asyncio.create_task(reflector.run(), name=f"reflect {kind}")
        try:
            while not running.done():
                await asyncio.sleep(1.0)
                match reflector.failure:
                    case Forbidden():
                        if self._forbidden_watches.is_lasting(kind, now=self._runtime.instant()):
                            self._set_phase(kind, WorkloadPhase.FORBIDDEN)
                    # The CRD was deleted; the kind may come back in another version, which only discovery finds.
                    case NotFound():
                        self.reader.discovery.invalidate(kind.group)
                        return
                    # The right was given meanwhile: no event says so, and nothing else ends the phase FORBIDDEN.
                    case None if reflector.synced.is_set():
                        self._forbidden_watches.clear(kind)
                        if self.reader.is_readable(kind):
                            self._set_phase(kind, WorkloadPhase.ABSENT)
                    case _:
                        pass
            running.result()  # raises the exception that ended it
        finally:
            self._resources.pop(kind, None)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _set_phase(self, kind: GroupResource, phase: WorkloadPhase) -> None:
        self._cache.workloads.observe_kind(kind, phase)
        self._informers.notify()

    def _observe_raw(self, key: WorkloadKey, workload: RawObject) -> None:
        if len(workload.raw) > LARGE_OBJECT_BYTES:
            workload.raw = b""
            self._enqueue_large_object(key, workload.metadata.uid)
        else:
            self.reader.evaluate(key, workload, resource=self._resources[key.kind])

    def _enqueue_large_object(self, key: WorkloadKey, uid: Uid) -> None:
        """Queue an object for evaluation; until then its phase is unchanged, and a new object is not finished."""
        if self._cache.workloads.get(key).uid != uid:
            self._cache.workloads.observe(key, uid=uid, finished=False)
        if key in self._large_queued:
            return
        self._large_queued.add(key)
        refused = self._large_queue.put(key, namespace=key.namespace)
        if refused is not None:
            self._large_queued.discard(refused)
        self._large.set()
        if self._large_object_task is None:
            self._large_object_task = asyncio.create_task(self._evaluate_large_objects(), name="judge large workloads")

    async def _evaluate_large_objects(self) -> None:
        while True:
            if not self._large_queue:
                self._large.clear()
                await self._large.wait()
            key = self._large_queue.pop()
            self._large_queued.discard(key)
            resource = self._resources.get(key.kind)
            if resource is None:
                continue
            try:
                workload = await self._runtime.client.get(resource, (key.namespace, key.name), RawObject)
            except NotFound:  # the informer reports it
                continue
            except ApiError as error:
                _log.info("%s: not evaluated, retrying: %s", key, error)
                await asyncio.sleep(LARGE_OBJECT_RETRY)
                self._enqueue_large_object(key, self._cache.workloads.get(key).uid)
                continue
            began = self._runtime.instant()
            if key.kind in self._resources and workload.metadata.uid == self._cache.workloads.get(key).uid:
                self.reader.evaluate(key, workload, resource=self._resources[key.kind], live=True)
                self._informers.notify()
            await asyncio.sleep(self._runtime.instant() - began)


def _key_of(kind: GroupResource, workload: ApiObject) -> WorkloadKey:
    return WorkloadKey(kind, workload.metadata.namespace, workload.metadata.name)
