"""The pods of a node that can be migrated away, and the reason for each other pod to stay.

The choice concerns only what a person sees before jobs are created. Limits, budgets and the rules about evictable pods
decide later, in arbitration, with the configuration of the descheduler.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from dra.engine.migration.view import MigrationPod
from dra.model.meta import OwnerReference, Struct

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Annotation of the pods that a kubelet creates for static pods."""


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
    if pod.metadata.annotation(MIRROR_ANNOTATION) is not None:
        return StayReason.MIRROR
    if pod.metadata.deleting:
        return StayReason.TERMINATING
    owner = controller_of(pod)
    if owner is None:
        return StayReason.BARE
    return StayReason.DAEMON_SET if owner.kind == "DaemonSet" else None


def select_pods(pods: Iterable[MigrationPod]) -> tuple[tuple[MigrationPod, ...], tuple[StayingPod, ...]]:
    """Return the pods to migrate, and the pods that stay; both in the given order."""
    migrated: list[MigrationPod] = []
    staying: list[StayingPod] = []
    for pod in pods:
        reason = stay_reason(pod)
        if reason is None:
            migrated.append(pod)
        else:
            staying.append(StayingPod(pod=pod, reason=reason))
    return tuple(migrated), tuple(staying)


def controller_of(pod: MigrationPod) -> OwnerReference | None:
    """Return the controller of a pod; None for a bare pod."""
    return next((each for each in pod.metadata.owner_references or () if each.controller), None)
