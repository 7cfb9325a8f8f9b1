"""Reads the objects that matter to migrations: the jobs, their pods, the descheduler's Lease and disruption budgets.

Only the pods of unfinished jobs are read, one by one: a cluster may have a hundred thousand pods, and a person who asks
about ten migrations at night does not wait for all of them.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.migrations import migration_requests
from dra.cli.kubectl.snapshots.lease_reader import read_descheduler_lease
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.diagnosis import migrations as explaining
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from dra.kube.client import Selection
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from dra.model.meta import Key
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerPod

PODS_MAX: Final = 200
"""Maximum number of pods that are read for one answer."""


def read_migrations(source: SnapshotSource, *, name: str | None = None) -> Snapshot:
    """Return the jobs with their pods; with a `name`, the pod and the disruption budgets of that job."""
    if source.bundle_path is not None:
        return source.read(SnapshotScope.CLAIMS_ONLY)
    return run(source.cluster_flags, lambda connection: _read(connection, source.lease_namespace, name=name))


async def _read(connection: Connection, lease_namespace: str, *, name: str | None) -> Snapshot:
    jobs = await migration_requests.list_jobs(connection.client)
    asked = [job for job in jobs if name in {None, job.metadata.name}]
    keys = [
        explaining.pod_key(job)
        for job in explaining.parse_jobs(asked)
        if not explaining.has_ended(job) and all(explaining.pod_key(job))
    ]
    gaps: list[UnreadResource] = []
    descheduler, pods, budgets = await asyncio.gather(
        read_descheduler_lease(connection.client, lease_namespace),
        _read_pods(connection, dict.fromkeys(keys), gaps),
        _read_budgets(connection, {key[0] for key in keys} if name is not None else set(), gaps),
    )
    return Snapshot(
        migrations=tuple(jobs), descheduler=descheduler, pods=tuple(pods), budgets=tuple(budgets), gaps=tuple(gaps)
    )


async def _read_pods(connection: Connection, keys: Iterable[Key], gaps: list[UnreadResource]) -> list[SchedulerPod]:
    wanted = list(keys)[:PODS_MAX]

    async def read(key: Key) -> SchedulerPod | None:
        try:
            return await connection.client.get(PODS, key, SchedulerPod)
        except NotFound:
            return None

    try:
        pods = await asyncio.gather(*map(read, wanted))
    except Forbidden as error:
        gaps.append(UnreadResource(resource=PODS.label, why=str(error)))
        return []
    return [pod for pod in pods if pod is not None]


async def _read_budgets(
    connection: Connection, namespaces: Iterable[str], gaps: list[UnreadResource]
) -> list[PodDisruptionBudget]:
    budgets: list[PodDisruptionBudget] = []
    for namespace in sorted(namespaces):
        selection = Selection(namespace=namespace)
        try:
            async for page in connection.client.list_pages(
                POD_DISRUPTION_BUDGETS, PodDisruptionBudget, selection=selection
            ):
                budgets += page.items
        except Forbidden as error:
            gaps.append(UnreadResource(resource=POD_DISRUPTION_BUDGETS.label, why=str(error)))
    return budgets
