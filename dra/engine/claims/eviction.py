"""Which pods must leave a tainted device, and when: upstream's rules, for the pods that upstream cannot see.

kube-controller-manager's device-taint-eviction-controller finds the pods of a claim in ``status.reservedFor``. Pods
that have started are not there where something else keeps the reservation, so a broken device would keep them. A pod
that *is* listed is left to upstream, in every mode: two controllers must not both decide about one pod.

The tables of tests/dra/engine/claims/test_eviction.py, and what both controllers do to pods of the same claim on a real
cluster (tests/scenarios/test_eviction.py), hold these rules of 1.36:

- the deadline is the moment at which the taint was put on, and the seconds for which it is tolerated; by several
  matching tolerations the fewest; for ever if one of them names none
- a toleration counts only if it names the effect NoExecute: by one without effect the device is allocated all the
  same, and then its pods are evicted (the documentation says otherwise, the code does not)
- the earliest of all devices ends the pod; devices with admin access count like others

Knows the time of day, since the API sets deadlines by it; it looks again each minute, in case the clock was moved.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from dra.engine.claims.actions import ClaimPlan, EvictPod
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.policy import Policy
from dra.engine.claims.reasons import Code, pod_reason
from dra.engine.claims.view import ClaimView
from dra.engine.devices.taints import TaintedResult, TaintSource
from dra.engine.instants import NEVER, Instant, WallTime
from dra.model.claims import ResourceClaim
from dra.model.taints import EQUAL, EXISTS, NO_EXECUTE, DeviceTaint, DeviceToleration

EVICTION_BATCH: Final = 64
"""Pods evicted by one decision: a claim of thousands is decided again in between, and a taint may be gone by then."""

CLOCK_RECHECK: Final = 60.0
"""Seconds after which a deadline that lies ahead is compared with the clock again."""


class EvictionDeadline(NamedTuple):
    """Until when the pods of a claim may stay, and because of what."""

    at: WallTime
    tainted: TaintedResult
    seconds: float
    """For how long the taint was tolerated."""


def decide(view: ClaimView, *, policy: Policy, now: Instant, wall: WallTime) -> ClaimPlan:
    """Return which pods of the claim are to be evicted now, or when to look again."""
    if not policy.evict or not view.taints:
        return ClaimPlan()
    pods = unlisted_consumers(view)
    deadlines = {
        node: eviction_deadline(taints_on_node(view.taints, node)) for node in {consumer.node for consumer in pods}
    }
    due = [(consumer, found) for consumer in pods if (found := deadlines[consumer.node]) and found.at <= wall]
    ahead = [now + min(found.at - wall, CLOCK_RECHECK) for found in deadlines.values() if found and found.at > wall]
    evictions = tuple(_evict(consumer, view.claim, found) for consumer, found in due[:EVICTION_BATCH])
    return ClaimPlan(actions=evictions, wake_at=now if len(due) > EVICTION_BATCH else min(ahead, default=NEVER))


def taints_on_node(taints: Iterable[TaintedResult], node: str) -> list[TaintedResult]:
    """Return the taints that count for pods on a node.

    Stricter than upstream, which compares no nodes: a slice that names a node tells of the devices of that node, and
    whoever may write slices for one node, as each node's plugin may, must not end pods on another.
    """
    return [tainted for tainted in taints if tainted.node in {None, node}]


def eviction_deadline(taints: Iterable[TaintedResult]) -> EvictionDeadline | None:
    """Return the first deadline that the taints of an allocation set; None if all are tolerated for ever."""
    found = (_deadline(tainted) for tainted in taints)
    return min((d for d in found if d is not None), key=_order, default=None)


def _deadline(tainted: TaintedResult) -> EvictionDeadline | None:
    added, seconds = tainted.taint.time_added, seconds_tolerated(tainted)
    if added is None or seconds == NEVER:
        return None
    return EvictionDeadline(added.timestamp() + seconds, tainted, seconds)


def _order(found: EvictionDeadline) -> tuple[WallTime, TaintSource, str, str]:
    """By time; of several at once the same is told each time, a rule before a slice, as upstream does."""
    return (found.at, found.tainted.source, found.tainted.origin, found.tainted.device)


def seconds_tolerated(tainted: TaintedResult) -> float:
    """Return for how many seconds the claim bears the taint on that device: 0 if not at all, `NEVER` if for ever."""
    tolerations = msgspec.convert(tainted.result.tolerations or (), list[DeviceToleration])
    matching = [t.toleration_seconds for t in tolerations if tolerates_taint(t, tainted.taint)]
    if None in matching:
        return NEVER
    return float(max(min((s for s in matching if s is not None), default=0), 0))


def tolerates_taint(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether a toleration is about this evicting taint."""
    if toleration.effect != NO_EXECUTE or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator == EXISTS:
        return True
    return toleration.operator in {"", EQUAL} and toleration.value == taint.value


def unlisted_consumers(view: ClaimView) -> list[Consumer]:
    """Return the consuming pods that upstream does not connect with the claim, without those that are going anyhow.

    By the entry of a PodGroup it sees all pods of it (1.36, DRAWorkloadResourceClaims).
    """
    return [
        consumer
        for consumer in (*view.started, *view.starting)
        if consumer.uid not in view.listed and not consumer.deleting and consumer.gang not in view.groups
    ]


def _evict(consumer: Consumer, claim: ResourceClaim, found: EvictionDeadline) -> EvictPod:
    tainted = found.tainted
    reason = pod_reason(
        Code.EVICTED,
        key=consumer.key,
        uid=consumer.uid,
        done=True,
        device=tainted.device,
        claim=claim.metadata.name,
        taint=str(tainted.taint),
        origin=tainted.origin,
        seconds=int(found.seconds),
    )
    return EvictPod(pod=consumer.key, uid=consumer.uid, source=tainted.source, reason=reason)
