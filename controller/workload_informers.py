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

from dra.cel.object_rules import RuleError, WorkloadLifecycle, WorkloadRules
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import Instant
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.codec import OBJECT_DECODE_ERRORS, ApiObject, decode_object
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.fair_queue import FairQueue
from dra.kube.object_sizes import EVALUATED_MEMORY_MAX, plain_data_bytes_max
from dra.kube.reflector import Reflector
from dra.kube.resources import InvalidNameError, Resource
from dra.kube.store import Synced
from dra.model.meta import PartialObjectMetadata, RawObject, Uid, UnstructuredObject
from dra.model.references import ConsumerReference, GroupResource

M = TypeVar("M", bound=ApiObject)

RETRY: Final = (5.0, 60.0)
"""Seconds, minimum and maximum, between discoveries of a kind that is not served: CRDs may be installed later."""

RESOLVE_INTERVAL: Final = 0.2
"""Seconds between repeated discoveries of any kinds that were not served before."""

PARALLEL_RESOLVES: Final = 8
"""Maximum number of first discoveries in flight: a user who may create claims can name kinds faster than an API server
reports that they do not exist."""

LARGE_OBJECT_BYTES: Final = 16 << 10
"""Bytes of an object above which its evaluation is queued."""

LARGE_OBJECT_RETRY: Final = 1.0
"""Seconds until a large object that could not be read is read again."""

LARGE_OBJECT_QUEUE_MAX: Final = 10_000
"""Maximum number of queued large objects; beyond it, one of the namespace with most of them counts as unfinished."""

FORBIDDEN_AFTER: Final = 5.0
"""Seconds for which reads must have been refused before the kind counts as forbidden: a restarted API server has not
loaded the rights yet."""

FORBIDDEN_FOR: Final = 60.0
"""Seconds for which a kind counts as unreadable after a read of a single object was refused."""

_log: Final = logging.getLogger(__name__)


class ForbiddenKinds:
    """The times since when reads of each kind have been refused."""

    def __init__(self) -> None:
        self._seen: dict[GroupResource, tuple[Instant, Instant]] = {}

    def is_lasting(self, kind: GroupResource, *, now: Instant) -> bool:
        """Count a refusal; return whether refusals last longer than a restart of the API server."""
        first, last = self._seen.get(kind, (now, now))
        first = now if now - last > FORBIDDEN_FOR else first
        self._seen[kind] = (first, now)
        return now - first >= FORBIDDEN_AFTER

    def clear(self, kind: GroupResource) -> None:
        """Clear the refusals of a kind after a successful read."""
        self._seen.pop(kind, None)


class WorkloadInformers:
    """One reflector for each kind that claims refer to."""

    def __init__(
        self,
        client: Client,
        *,
        cache: ClaimCache,
        rules: Mapping[GroupResource, WorkloadRules],
        on_change: Callable[[], None],
        clock: Clock = SYSTEM,
    ) -> None:
        self._client = client
        self._cache = cache
        self._rules = rules
        self._on_change = on_change
        self._clock = clock
        self._discovery = Discovery(client, clock=clock)
        self._forbidden: dict[GroupResource, Instant] = {}
        """Time until which a kind counts as unreadable: a kind may be watchable while its single objects are not
        readable."""

        self._forbidden_reads = ForbiddenKinds()
        self._forbidden_watches = ForbiddenKinds()
        self._watching: dict[GroupResource, asyncio.Task[None]] = {}
        self._wanted: frozenset[GroupResource] = frozenset()
        self._resolve_slots = asyncio.Semaphore(PARALLEL_RESOLVES)
        self._resolve_lock = asyncio.Lock()
        self._resources: dict[GroupResource, Resource] = {}
        """Resources of the watched kinds."""

        self._large_queue: FairQueue[WorkloadKey] = FairQueue(LARGE_OBJECT_QUEUE_MAX)
        self._large_queued: set[WorkloadKey] = set()
        """The keys in `_due`, for membership tests."""

        self._large = asyncio.Event()
        self._large_object_task: asyncio.Task[None] | None = None

    def sync_kinds(self) -> None:
        """Watch the kinds that claims refer to, at most `workload_kinds.KINDS_PER_NAMESPACE` per namespace."""
        wanted = self._cache.workload_kinds()
        if wanted is self._wanted:
            return
        self._wanted = wanted
        for kind in wanted - self._watching.keys():
            self._watching[kind] = asyncio.create_task(self._watch(kind), name=f"watch {kind}")
        for kind in self._watching.keys() - wanted:
            self._watching.pop(kind).cancel()
            self._cache.forget_kind(kind)

    async def close(self) -> None:
        """Stop the watches of all kinds."""
        tasks = [*self._watching.values(), *([self._large_object_task] if self._large_object_task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look_up(self, reference: ConsumerReference, *, namespace: str) -> None:
        """Read the object of a reference live into the cache. Without an answer it stays in doubt.

        Raises the error that prevented an answer; Forbidden only while the refusal may be temporary.
        """
        kind = reference.group_resource
        key = WorkloadKey.from_reference(reference, namespace)
        try:
            resource = await self._discovery.resolve(kind)
            if resource is None or not resource.namespaced:
                self._cache.observe_kind(kind, WorkloadPhase.NO_KIND)
                return
            found = await self._client.get(resource, (namespace, reference.name), UnstructuredObject)
        except NotFound as error:
            if error.is_about(reference.name):
                self._cache.forget_workload(key, reference.uid)
            else:  # the path does not exist: its version is no longer served
                self._discovery.invalidate(kind.group)
        except InvalidNameError:  # no object can have such a name
            self._cache.forget_workload(key, reference.uid)
        except Forbidden:
            if not self._forbidden_reads.is_lasting(kind, now=self._clock.now()):
                raise
            self._forbidden[kind] = self._clock.now() + FORBIDDEN_FOR
            self._cache.observe_kind(kind, WorkloadPhase.FORBIDDEN)
        else:
            self._forbidden_reads.clear(kind)
            if found.metadata.uid != reference.uid:
                self._cache.forget_workload(key, reference.uid)
            self._observe(key, found, live=True)
        finally:
            self._on_change()

    async def _watch(self, kind: GroupResource) -> None:
        backoff = Backoff(base=RETRY[0], cap=RETRY[1])
        resolve: Callable[[GroupResource], Awaitable[Resource | None]] = self._resolve_first
        while True:
            try:
                resource = await resolve(kind)
                if resource is not None and resource.namespaced:
                    await self._reflect(kind, resource)
                    self._cache.forget_kind(kind)
                    backoff.reset()
                else:
                    self._set_phase(kind, WorkloadPhase.NO_KIND)
            except ApiError as error:
                _log.warning("workloads %s: API discovery failed, retrying (%s)", kind, error)
            except Exception:  # noqa: BLE001 - one kind must not stop all others, nor end unnoticed
                _log.exception("workloads %s: watch failed, retrying soon", kind)
                self._cache.forget_kind(kind)
            await asyncio.sleep(backoff.next())
            resolve = self._resolve_in_turn

    async def _resolve_first(self, kind: GroupResource) -> Resource | None:
        """Discover a kind, at most `PARALLEL_RESOLVES` at a time."""
        async with self._resolve_slots:
            return await self._discovery.resolve(kind)

    async def _resolve_in_turn(self, kind: GroupResource) -> Resource | None:
        """Discover a kind again, one kind at a time: a user who may create claims can invent ten thousand kinds."""
        async with self._resolve_lock:
            await asyncio.sleep(RESOLVE_INTERVAL)
            return await self._discovery.resolve(kind)

    async def _reflect(self, kind: GroupResource, resource: Resource) -> None:
        """Watch the kind until its CRD is gone."""
        rule = self._rules.get(kind)
        self._resources[kind] = resource

        def on_sync(_: Synced) -> None:
            if self._readable(kind):
                self._cache.observe_kind(kind, WorkloadPhase.ABSENT)
            self._cache.workloads_listed(kind, reflector.objects.keys())

        def reflector_of(model: type[M], observe: Callable[[WorkloadKey, M], None]) -> Reflector[M]:
            handler = EventHandlerFuncs[M](
                on_upsert=lambda found: observe(_key_of(kind, found), found),
                on_delete=lambda found: self._cache.forget_workload(_key_of(kind, found), found.metadata.uid),
                on_leave=ignore,
                on_sync=on_sync,
                on_restore=ignore,
                on_batch_end=self._on_change,
            )
            return Reflector(self._client, resource, model, handler=handler, clock=self._clock)

        reflector: Reflector[RawObject] | Reflector[PartialObjectMetadata] = (
            reflector_of(PartialObjectMetadata, self._observe)
            if rule is None
            else reflector_of(RawObject, self._observe_raw)
        )
        running = asyncio.create_task(reflector.run(), name=f"reflect {kind}")
        try:
            while not running.done():
                await asyncio.sleep(1.0)
                match reflector.failure:
                    case Forbidden():
                        if self._forbidden_watches.is_lasting(kind, now=self._clock.now()):
                            self._set_phase(kind, WorkloadPhase.FORBIDDEN)
                    case NotFound():
                        self._discovery.invalidate(kind.group)
                        return
                    case None if reflector.synced.is_set():
                        self._forbidden_watches.clear(kind)
                        if self._readable(kind):
                            self._set_phase(kind, WorkloadPhase.ABSENT)
                    case _:
                        pass
            running.result()  # raises the exception that ended it
        finally:
            self._resources.pop(kind, None)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _readable(self, kind: GroupResource) -> bool:
        return self._forbidden.get(kind, 0.0) <= self._clock.now()

    def _set_phase(self, kind: GroupResource, phase: WorkloadPhase) -> None:
        self._cache.observe_kind(kind, phase)
        self._on_change()

    def _observe_raw(self, key: WorkloadKey, found: RawObject) -> None:
        if len(found.raw) > LARGE_OBJECT_BYTES:
            found.raw = b""
            self._enqueue_large_object(key, found.metadata.uid)
        else:
            self._evaluate(key, found)

    def _evaluate(self, key: WorkloadKey, found: RawObject, *, live: bool = False) -> None:
        """Decode an object and store its phase in the cache; an undecodable object exists.

        ``live``: from a live read.
        """
        if plain_data_bytes_max(found.raw) > EVALUATED_MEMORY_MAX:
            fault, found.raw = f"too large to be evaluated: {len(found.raw) >> 10} KiB", b""
            self._cache.observe_workload(key, uid=found.metadata.uid, finished=False, rule_error=fault, live=live)
            return
        try:
            whole = decode_object(self._resources[key.kind], found)
        except OBJECT_DECODE_ERRORS as error:
            self._cache.observe_workload(key, uid=found.metadata.uid, finished=False, rule_error=str(error), live=live)
        else:
            self._observe(key, whole, live=live)

    def _enqueue_large_object(self, key: WorkloadKey, uid: Uid) -> None:
        """Queue an object for evaluation; until then its phase is unchanged, and a new object is not finished."""
        if self._cache.workload(key).uid != uid:
            self._cache.observe_workload(key, uid=uid, finished=False)
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
                found = await self._client.get(resource, (key.namespace, key.name), RawObject)
            except NotFound:  # the informer reports it
                continue
            except ApiError as error:
                _log.info("%s: not evaluated, retrying: %s", key, error)
                await asyncio.sleep(LARGE_OBJECT_RETRY)
                self._enqueue_large_object(key, self._cache.workload(key).uid)
                continue
            began = self._clock.now()
            if key.kind in self._resources and found.metadata.uid == self._cache.workload(key).uid:
                self._evaluate(key, found, live=True)
                self._on_change()
            await asyncio.sleep(self._clock.now() - began)

    def _observe(
        self, key: WorkloadKey, found: UnstructuredObject | PartialObjectMetadata, *, live: bool = False
    ) -> None:
        """Store the phase of an object in the cache; one whose rule fails exists, and its claims report the error."""
        lifecycle, rule_error = WorkloadLifecycle(), ""
        if isinstance(found, UnstructuredObject):
            try:
                lifecycle = self._rules.get(key.kind, WorkloadRules()).evaluate(found.content)
            except RuleError as error:  # a failing rule must not end the watch of the kind
                rule_error = str(error)
            found.content.clear()  # the reflector stores this object, and needs only its metadata
        self._cache.observe_workload(
            key,
            uid=found.metadata.uid,
            finished=lifecycle.finished,
            suspended=lifecycle.suspended,
            rule_error=rule_error,
            live=live,
        )


def _key_of(kind: GroupResource, found: ApiObject) -> WorkloadKey:
    return WorkloadKey(kind, found.metadata.namespace, found.metadata.name)
