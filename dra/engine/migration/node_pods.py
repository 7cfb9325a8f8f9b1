"""The pods of a node that can be migrated away, and the reason for each other pod to stay.

The choice concerns only what a person sees before jobs are created, so it has the rules that hold in every cluster: no
job is made that could only fail. The rules of `evictability` that the descheduler's configuration changes, limits and
budgets decide in arbitration.
"""

from collections.abc import Iterable
from enum import StrEnum

from dra.engine.migration.evictability import DAEMON_SET, is_static
from dra.engine.migration.view import MigrationPod
from dra.model.meta import Struct


class StayReason(StrEnum):
    """The reason for a pod to stay on its node; the value is the text for people."""

    FINISHED = "has finished"
    TERMINATING = "is being deleted already"
    DAEMON_SET = "belongs to a DaemonSet, which runs a pod on each node"
    MIRROR = "is a static pod of the kubelet, which only the node's files can remove"
    BARE = "has no controller, so no pod would replace it"


class StayingPod(Struct, frozen=True):
    """A pod that stays on its node."""

    pod: MigrationPod
    reason: StayReason


def stay_reason(pod: MigrationPod) -> StayReason | None:
    """Return why a pod cannot be migrated; None if it can."""
    if pod.terminal:
        return StayReason.FINISHED
    if is_static(pod):
        return StayReason.MIRROR
    if pod.metadata.deleting:
        return StayReason.TERMINATING
    owner = pod.metadata.controller
    if owner is None:
        return StayReason.BARE
    return StayReason.DAEMON_SET if owner.kind == DAEMON_SET else None


def select_pods(pods: Iterable[MigrationPod]) -> tuple[tuple[MigrationPod, ...], tuple[StayingPod, ...]]:
    """Return the pods to migrate, and the pods that stay; both in the given order."""
    reasons = [(pod, stay_reason(pod)) for pod in pods]
    staying = (StayingPod(pod=pod, reason=reason) for pod, reason in reasons if reason is not None)
    return tuple(pod for pod, reason in reasons if reason is None), tuple(staying)
