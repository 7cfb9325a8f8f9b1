"""The order in which jobs pass arbitration: the pods that are cheapest to evict come first.

Koordinator sorts several times, each sort stable and stronger than the one before: jobs that were created later; pods
in evict-first order; pods of one batch Job next to each other, at the rank of the best of these pods; and batch Jobs of
which more pods are migrating already.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from dra.api.migration.model import PodMigrationJob
from dra.api.migration.well_known import ANNOTATION_POD_DELETION_COST, EVICTION_COST
from dra.engine.migration.pod_index import NamespacedUid, workload_of
from dra.engine.migration.pod_state import created_at
from dra.engine.migration.view import MigrationPod
from dra.model.koordinator_classes import effective_priority_class, effective_qos_class
from dra.model.meta import Struct, Uid
from dra.model.pods import Pod

EvictionRank: TypeAlias = tuple[Any, ...]

_KUBERNETES_QOS: Final = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}
_MAX_INT32: Final = 2**31 - 1
_BATCH_JOB: Final = "Job"


class Candidate(Struct, frozen=True):
    """A job that asks to begin, with its pod."""

    job: PodMigrationJob
    pod: MigrationPod


def eviction_cost(pod: Pod) -> int:
    """Return the eviction cost of a pod: of its annotation, or of its label; 0 if neither is a valid number."""
    given = pod.metadata.annotation(EVICTION_COST)
    if given is None:
        given = (pod.metadata.labels or {}).get(EVICTION_COST)
    return parse_cost(given)


def parse_cost(text: str | None) -> int:
    """Return a cost as Kubernetes reads costs: no plus sign, no leading zeros, 32 bits; 0 for any other text."""
    if not text or text[0] == "+" or len(text) > len(str(-_MAX_INT32)):
        return 0
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (digits[0] == "0" and text != "0"):
        return 0
    value = int(text)
    return value if -_MAX_INT32 - 1 <= value <= _MAX_INT32 else 0


def evict_first_key(pod: MigrationPod) -> EvictionRank:
    """Return the rank of a pod among pods to evict; the pod with the smallest rank is evicted first.

    Pods that differ in nothing that matters have the same rank.
    """
    return (
        effective_priority_class(pod, kubernetes_qos=pod.status.qos_class),
        pod.spec.priority,
        _KUBERNETES_QOS.get(pod.status.qos_class, 0),
        effective_qos_class(pod, kubernetes_qos=pod.status.qos_class),
        parse_cost(pod.metadata.annotation(ANNOTATION_POD_DELETION_COST)),
        eviction_cost(pod),
        -created_at(pod),
    )


def sort_candidates(candidates: Iterable[Candidate], *, migrating: Mapping[NamespacedUid, int]) -> list[Candidate]:
    """Return the candidates in the order in which they pass; `migrating` is the number of each workload's migrations.

    Jobs with forged controllers stay together at most with others of their own namespace.
    """
    groups: dict[NamespacedUid, list[Candidate]] = {}
    for candidate in sorted(candidates, key=_rank):
        workload = workload_of(candidate.pod)
        is_batch = workload is not None and workload.kind == _BATCH_JOB
        alone = ("", Uid(candidate.job.metadata.uid))
        groups.setdefault(workload.in_namespace if workload is not None and is_batch else alone, []).append(candidate)
    ordered = sorted(groups.items(), key=lambda group: -migrating.get(group[0], 0))
    return [candidate for _, members in ordered for candidate in members]


def _rank(candidate: Candidate) -> EvictionRank:
    metadata = candidate.job.metadata
    created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else 0.0
    # Koordinator leaves the rest open; the names make the order independent of the order of events.
    return (*evict_first_key(candidate.pod), -created, *candidate.pod.metadata.key, metadata.name)
