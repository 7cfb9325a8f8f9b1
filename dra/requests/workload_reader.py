"""Reads the objects that claims are reserved for, and evaluates the rules of their kinds."""

from collections.abc import Mapping
from typing import Final

from dra.cel.object_rules import RuleError, WorkloadLifecycle, WorkloadRules
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import Instant
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.codec import OBJECT_DECODE_ERRORS, decode_object
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden, NotFound
from dra.kube.object_sizes import EVALUATED_MEMORY_MAX, plain_data_bytes_max
from dra.kube.resources import InvalidNameError, Resource
from dra.model.meta import PartialObjectMetadata, RawObject, UnstructuredObject
from dra.model.references import ConsumerReference, GroupResource

FORBIDDEN_AFTER: Final = 5.0
"""Seconds for which reads must have been refused before the kind counts as forbidden: a restarted API server has not
loaded the rights yet."""

FORBIDDEN_FOR: Final = 60.0
"""Seconds for which a kind counts as unreadable after a read of a single object was refused."""


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


class WorkloadReader:
    """A reader that stores what it reads in the cache."""

    def __init__(
        self, client: Client, *, cache: ClaimCache, rules: Mapping[GroupResource, WorkloadRules], clock: Clock
    ) -> None:
        self.discovery = Discovery(client, clock=clock)
        self._client = client
        self._cache = cache
        self._rules = rules
        self._clock = clock
        self._forbidden: dict[GroupResource, Instant] = {}
        """Time until which a kind counts as unreadable: a kind may be watchable while its single objects are not
        readable."""

        self._forbidden_reads = ForbiddenKinds()

    def is_readable(self, kind: GroupResource) -> bool:
        """Return whether single objects of a kind can be read, as far as is known."""
        return self._forbidden.get(kind, 0.0) <= self._clock.now()

    def has_rules(self, kind: GroupResource) -> bool:
        """Return whether objects of a kind are needed in full, to be evaluated."""
        return kind in self._rules

    async def look_up(self, reference: ConsumerReference, *, namespace: str) -> None:
        """Read the object of a reference live into the cache. Without an answer it stays in doubt.

        Raises the error that prevented an answer; Forbidden only while the refusal may be temporary.
        """
        kind = reference.group_resource
        key = WorkloadKey.from_reference(reference, namespace)
        try:
            resource = await self.discovery.resolve(kind)
            if resource is None or not resource.namespaced:
                self._cache.workloads.observe_kind(kind, WorkloadPhase.NO_KIND)
                return
            workload = await self._client.get(resource, (namespace, reference.name), UnstructuredObject)
        except NotFound as error:
            if error.is_about(reference.name):
                self._cache.workloads.forget(key, reference.uid)
            else:  # the path does not exist: its version is no longer served
                self.discovery.invalidate(kind.group)
        except InvalidNameError:  # no object can have such a name
            self._cache.workloads.forget(key, reference.uid)
        except Forbidden:
            if not self._forbidden_reads.is_lasting(kind, now=self._clock.now()):
                raise
            self._forbidden[kind] = self._clock.now() + FORBIDDEN_FOR
            self._cache.workloads.observe_kind(kind, WorkloadPhase.FORBIDDEN)
        else:
            self._forbidden_reads.clear(kind)
            if workload.metadata.uid != reference.uid:
                self._cache.workloads.forget(key, reference.uid)
            self.observe(key, workload, live=True)

    def evaluate(self, key: WorkloadKey, workload: RawObject, *, resource: Resource, live: bool = False) -> None:
        """Decode an object and store its phase in the cache; an undecodable object exists.

        ``live``: from a live read.
        """
        if plain_data_bytes_max(workload.raw) > EVALUATED_MEMORY_MAX:
            fault, workload.raw = f"too large to be evaluated: {len(workload.raw) >> 10} KiB", b""
            self._cache.workloads.observe(key, uid=workload.metadata.uid, finished=False, rule_error=fault, live=live)
            return
        try:
            whole = decode_object(resource, workload)
        except OBJECT_DECODE_ERRORS as error:
            self._cache.workloads.observe(
                key, uid=workload.metadata.uid, finished=False, rule_error=str(error), live=live
            )
        else:
            self.observe(key, whole, live=live)

    def observe(
        self, key: WorkloadKey, workload: UnstructuredObject | PartialObjectMetadata, *, live: bool = False
    ) -> None:
        """Store the phase of an object in the cache; one whose rule fails exists, and its claims report the error."""
        lifecycle, rule_error = WorkloadLifecycle(), ""
        if isinstance(workload, UnstructuredObject):
            try:
                lifecycle = self._rules.get(key.kind, WorkloadRules()).evaluate(workload.content)
            except RuleError as error:  # a failing rule must not end the watch of the kind
                rule_error = str(error)
            workload.content.clear()  # the reflector stores this object, and needs only its metadata
        self._cache.workloads.observe(
            key,
            uid=workload.metadata.uid,
            finished=lifecycle.finished,
            suspended=lifecycle.suspended,
            rule_error=rule_error,
            live=live,
        )
