"""The wanted replicas of workloads, read when arbitration needs them and kept for some seconds."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from dra.engine.instants import Instant
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import JOBS, InvalidNameError, Resource
from dra.model.meta import ObjectMeta, OwnerReference, Struct, Uid

KEEP_SECONDS: Final = 10.0
"""Seconds for which the replicas of a workload are kept: people scale workloads, and arbitration follows soon."""

CONCURRENT_READS: Final = 16

REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
REPLICATION_CONTROLLERS: Final = Resource("", "v1", "replicationcontrollers", "ReplicationController", namespaced=True)

_KINDS: Final[Mapping[tuple[str, str], Resource]] = {
    (each.api_version, each.kind): each for each in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)
}

_log: Final = logging.getLogger(__name__)


class _WorkloadSpec(Struct, frozen=True):
    replicas: int | None = None
    parallelism: int | None = None


class _Workload(Struct, frozen=True):
    metadata: ObjectMeta
    spec: _WorkloadSpec = _WorkloadSpec()


class WorkloadReplicas:
    """Reads ``spec.replicas`` of workloads, or ``spec.parallelism`` of Jobs.

    A workload of another kind, or one that may not be read, has no entry: arbitration counts its pods instead.
    """

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[Uid, tuple[int | None, Instant]] = {}
        """Workload → replicas, and when these were read."""
        self._forbidden: set[str] = set()
        """Kinds that may not be read, as far as reported."""

    async def read(self, workloads: Iterable[tuple[OwnerReference, str]]) -> Mapping[Uid, int]:
        """Return the replicas of workloads, given as controller reference and namespace.

        Raises ApiError if the API server does not answer: a wrong number would refuse jobs for good.
        """
        now = self._clock.now()
        self._known = {uid: entry for uid, entry in self._known.items() if now < entry[1] + KEEP_SECONDS}
        wanted = [each for each in workloads if each[0].uid not in self._known]
        slots = asyncio.Semaphore(CONCURRENT_READS)

        async def read_one(reference: OwnerReference, namespace: str) -> None:
            async with slots:
                self._known[reference.uid] = (await self._read(reference, namespace), self._clock.now())

        results = await asyncio.gather(*(read_one(*each) for each in wanted), return_exceptions=True)
        for failure in results:
            if failure is not None:
                raise failure
        return {uid: replicas for uid, (replicas, _) in self._known.items() if replicas is not None}

    async def _read(self, reference: OwnerReference, namespace: str) -> int | None:
        resource = _KINDS.get((reference.api_version, reference.kind))
        if resource is None:
            return None
        try:
            found = await self._client.get(resource, (namespace, reference.name), _Workload)
        except (NotFound, InvalidNameError):  # the API server checks no name of an owner
            return None
        except Forbidden as error:
            if reference.kind not in self._forbidden:
                self._forbidden.add(reference.kind)
                _log.warning(
                    "the pods of each %s are counted, since its replicas are unknown: %s", reference.kind, error
                )
            return None
        if found.metadata.uid != reference.uid:
            return None
        default = 1  # as the API server defaults both fields
        given = found.spec.parallelism if resource is JOBS else found.spec.replicas
        return default if given is None else given
