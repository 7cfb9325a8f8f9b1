"""The migrations in progress when a round begins: their pods have left already, as far as the round is concerned."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dra.api.migration.model import ENDED_PHASES, PodMigrationJob
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.migration.job_index import reservation_name
from dra.model.meta import Key, Uid, UnstructuredObject


class MigrationInFlight(NamedTuple):
    """A pod of an unfinished PodMigrationJob."""

    pod: DeschedulingPod
    node: str
    """The node of its Reservation; empty if the Reservation has none yet, or the job makes none."""


def migrations_in_flight(
    jobs: Iterable[PodMigrationJob],
    *,
    reservations: Iterable[UnstructuredObject],
    pods: Mapping[Uid, DeschedulingPod],
) -> Iterator[MigrationInFlight]:
    """Yield the pods of unfinished jobs that still exist, each once, with the nodes that hold their places."""
    unfinished = [job for job in jobs if job.status.phase not in ENDED_PHASES]
    if not unfinished:
        return
    wanted = {job.spec.pod_ref.key for job in unfinished}
    by_key: dict[Key, DeschedulingPod] = {key: pod for pod in pods.values() if (key := pod.metadata.key) in wanted}
    nodes = {reservation.metadata.name: _node_of(reservation) for reservation in reservations}
    seen: set[Uid] = set()
    for job in unfinished:
        named = job.spec.pod_ref
        pod = by_key.get(named.key)
        if pod is None or named.uid not in ("", pod.metadata.uid) or pod.metadata.uid in seen:
            continue
        seen.add(pod.metadata.uid)
        yield MigrationInFlight(pod, nodes.get(reservation_name(job)) or job.status.node_name)


def _node_of(reservation: UnstructuredObject) -> str:
    """Return the node that holds what a Reservation reserves; empty while none does."""
    status = reservation.content.get("status")
    node = status.get("nodeName") if isinstance(status, dict) and status.get("phase") == "Available" else ""
    return node if isinstance(node, str) else ""
