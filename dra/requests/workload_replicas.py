"""The wanted replicas of workloads, read when arbitration needs them and kept for some seconds.

Kubernetes' own kinds are read as they are. For any other kind, such as OpenKruise's CloneSet, the subresource ``scale``
tells the number, if the kind has one and the descheduler may get it. A kind of others never stops arbitration: its API
server or its conversion webhook may be down while all other workloads can be migrated.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dra.engine.instants import Instant
from dra.engine.migration.pod_index import WorkloadKey, workload_key
from dra.engine.migration.replicas import Workload, scale_replicas, wanted_replicas
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound, TooManyRequests
from dra.kube.resources import JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, InvalidNameError, Resource
from dra.model.meta import OwnerReference

KEEP_SECONDS: Final = 10.0
"""Seconds for which the replicas of a workload are kept: people scale workloads, and arbitration follows soon."""

CONCURRENT_READS: Final = 16

SCALE_SECONDS: Final = 5.0
"""Maximum seconds for one read of a subresource ``scale``."""

PAUSE_SECONDS: Final = 60.0
"""Seconds for which a kind whose subresource ``scale`` cannot be read is not asked again."""

SCALE: Final = "scale"

_KINDS: Final[Mapping[tuple[str, str], Resource]] = {
    (resource.api_version, resource.kind): resource
    for resource in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)
}

_OWN_GROUPS: Final = frozenset(resource.group for resource in _KINDS.values())

_log: Final = logging.getLogger(__name__)


class GroupKind(NamedTuple):
    """An API group and a kind in it."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group not in _OWN_GROUPS else self.kind


class WorkloadReplicas:
    """Reads the replicas of workloads, or ``spec.parallelism`` of Jobs.

    A workload of another kind, one that may not be read, and one that is not what its pods say has no entry.
    """

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[WorkloadKey, tuple[int | None, Instant]] = {}
        """Workload → replicas, and when these were read."""
        self._discovery = Discovery(client, clock=clock)
        self._reported: set[GroupKind] = set()
        """Kinds that cannot be read, as far as reported."""
        self._paused: dict[GroupKind, Instant] = {}
        """Kind of others → when it is asked again after a failure."""

    async def read(self, workloads: Iterable[tuple[OwnerReference, str]]) -> Mapping[WorkloadKey, int]:
        """Return the replicas of workloads, given as controller reference and namespace.

        Raises ApiError if the API server does not answer: a wrong number would refuse jobs for good.
        """
        now = self._clock.now()
        self._known = {key: entry for key, entry in self._known.items() if now < entry[1] + KEEP_SECONDS}
        self._paused = {kind: until for kind, until in self._paused.items() if now < until}
        given = {workload_key(owner, namespace=namespace): owner for owner, namespace in workloads}
        wanted = [key for key in given if key not in self._known]
        slots = asyncio.Semaphore(CONCURRENT_READS)

        async def read_one(key: WorkloadKey) -> None:
            async with slots:
                self._known[key] = (await self._read(given[key], key.namespace), self._clock.now())

        results = await asyncio.gather(*map(read_one, wanted), return_exceptions=True)
        for failure in results:
            if failure is not None:
                raise failure
        return {key: replicas for key, (replicas, _) in self._known.items() if replicas is not None}

    async def _read(self, reference: OwnerReference, namespace: str) -> int | None:
        kind = GroupKind(group=reference.api_version.rpartition("/")[0], kind=reference.kind)
        resource = _KINDS.get((reference.api_version, reference.kind))
        try:
            if resource is None:
                return await self._read_scale(kind, reference, namespace)
            workload = await self._client.get(resource, (namespace, reference.name), Workload)
        except (NotFound, InvalidNameError):  # the API server checks no name of an owner
            return None
        except Forbidden as error:
            self._report(kind, error)
            return None
        return wanted_replicas(workload, reference)

    async def _read_scale(self, kind: GroupKind, reference: OwnerReference, namespace: str) -> int | None:
        if kind in self._paused:
            return None
        try:
            async with asyncio.timeout(SCALE_SECONDS):
                resource = await self._discovery.resolve_kind(kind.group, kind.kind, subresource=SCALE)
                if resource is None:
                    return None
                key = (namespace, reference.name)
                scale = await self._client.get(resource, key, Workload, subresource=SCALE)
        except (NotFound, TooManyRequests):
            raise
        except (ApiError, TimeoutError) as error:
            self._paused[kind] = self._clock.now() + PAUSE_SECONDS
            self._report(kind, error)
            return None
        return scale_replicas(scale, reference)

    def _report(self, kind: GroupKind, error: Exception) -> None:
        if kind in self._reported:
            return
        self._reported.add(kind)
        why = str(error) or f"no answer within {SCALE_SECONDS:g} s"
        _log.warning("of each %s one pod may be away at a time, since its replicas are unknown: %s", kind, why)
