"""Counts the disruptions that a PodDisruptionBudget allows, as kube-controller-manager's disruption controller does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from localplane.controller_manager.api_types import Pod

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""Time after an eviction in which the pod's deletion must be observed; later the pod counts as healthy again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionCounts:
    """The counts in the status of a PodDisruptionBudget."""

    expected_pods: int
    current_healthy: int
    desired_healthy: int
    disruptions_allowed: int
    disrupted_pods: Mapping[str, datetime]
    recheck_at: datetime | None
    """Time when the first disrupted pod counts as healthy again; None if no pod is disrupted."""


def count_disruptions(
    pods: Sequence[Pod],
    *,
    min_available: int | str | None,
    max_unavailable: int | str | None,
    scale: int,
    disrupted_pods: Mapping[str, datetime],
    now: datetime,
) -> DisruptionCounts:
    """Return the counts for the pods that a budget selects; `scale` is the number that their controllers want."""
    expected, desired = len(pods), 0
    if max_unavailable is not None:
        expected = scale
        desired = max(0, scale - scaled_value(max_unavailable, scale))
    elif isinstance(min_available, str):
        expected = scale
        desired = scaled_value(min_available, scale)
    elif min_available is not None:
        desired = min_available
    waiting = {
        pod.metadata.name: disrupted_pods[pod.metadata.name]
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and pod.metadata.name in disrupted_pods
        and now <= disrupted_pods[pod.metadata.name] + DELETION_TIMEOUT
    }
    healthy = sum(
        pod.ready and pod.metadata.deletion_timestamp is None and pod.metadata.name not in waiting for pod in pods
    )
    return DisruptionCounts(
        expected_pods=expected,
        current_healthy=healthy,
        desired_healthy=desired,
        disruptions_allowed=max(0, healthy - desired) if expected > 0 else 0,
        disrupted_pods=waiting,
        recheck_at=min(waiting.values()) + DELETION_TIMEOUT if waiting else None,
    )


def scaled_value(value: int | str, total: int) -> int:
    """Return an integer as it is, and a percentage such as ``50%`` of the total, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * total // 100)
