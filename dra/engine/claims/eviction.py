"""Decide which pods must leave a tainted device, and when: upstream's rules, for pods that upstream cannot see.

kube-controller-manager's device-taint-eviction-controller finds the pods of a claim in ``status.reservedFor``. Pods
that have started are missing there where another entry keeps the reservation, so a broken device would keep them. A pod
that *is* listed is left to upstream, in every mode: two controllers must not both decide about one pod.

The tables of tests/dra/engine/claims/test_eviction.py, and the behaviour of both controllers towards pods of the same
claim on a real cluster (tests/scenarios/test_eviction.py), prove these rules of 1.38:

- the deadline is the moment at which the taint was added, plus the seconds for which it is tolerated; of several
  matching tolerations the shortest counts; the pod stays for ever if one of them names no seconds
- a toleration counts if it names the effect NoExecute or none; kube-controller-manager up to 1.37 ignores those without
  effect, and evicts pods that we leave alone on each version: so says the API, and who is in doubt ends no pod
- the earliest deadline of all devices ends the pod; devices with admin access count like others

Reads the time of day, since the API sets deadlines by it, and compares again each minute in case the clock was moved.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Never, TypeAlias

from dra.engine.claims.actions import EvictPod
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.eviction_index import NOTHING_POSTPONED, PostponedEvictions
from dra.engine.claims.policy import Policy
from dra.engine.claims.reasons import pod_reason
from dra.engine.claims.view import ClaimView
from dra.engine.devices.taints import TaintedResult, TaintSource
from dra.engine.instants import NEVER, Instant, WallTime
from dra.engine.plan import Plan
from dra.model.claims import ResourceClaim
from dra.model.pods import DISRUPTION_TARGET, Pod, PodCondition

EvictionPlan: TypeAlias = Plan[EvictPod, Never]

CONDITION: Final = PodCondition(
    type=DISRUPTION_TARGET,
    status="True",
    reason="DeletionByDeviceTaintManager",
    message="Device Taint manager: deleting due to NoExecute taint",
)
"""Verbatim copy of upstream's condition: pod failure policies and dashboards that match it need no change."""

EVICTION_BATCH: Final = 64
"""Pods evicted by one decision: a claim of thousands is decided again in between, since the taint may be gone by
then."""

CLOCK_RECHECK: Final = 60.0
"""Seconds after which a future deadline is compared with the clock again."""


class EvictionDeadline(NamedTuple):
    """The deadline until which the pods of a claim may stay, and the taint that sets it."""

    at: WallTime
    tainted: TaintedResult
    seconds: float
    """Seconds for which the taint was tolerated."""


def decide(
    view: ClaimView, *, policy: Policy, now: Instant, wall: WallTime, postponed: PostponedEvictions = NOTHING_POSTPONED
) -> EvictionPlan:
    """Return the evictions of the claim's pods that are due now, or when to decide again.

    Pods whose eviction failed a moment ago are left alone; other pods of the claim do not wait for these.
    """
    if not policy.evict or not view.taints:
        return EvictionPlan()
    pods = unlisted_consumers(view)
    deadlines = {
        node: eviction_deadline(taints_on_node(view.taints, node)) for node in {consumer.node for consumer in pods}
    }
    failed = postponed.pods if now < postponed.until else frozenset()
    due = [(consumer, deadline) for consumer in pods if (deadline := deadlines[consumer.node]) and deadline.at <= wall]
    # Taints carry times of the day, and the clock may be set meanwhile: a far deadline is compared again.
    ahead = [
        now + min(deadline.at - wall, CLOCK_RECHECK)
        for deadline in deadlines.values()
        if deadline and deadline.at > wall
    ]
    if any(consumer.uid in failed for consumer, _ in due):
        ahead.append(postponed.until)
        due = [(consumer, deadline) for consumer, deadline in due if consumer.uid not in failed]
    evictions = tuple(_evict(consumer, view.claim, deadline) for consumer, deadline in due[:EVICTION_BATCH])
    return EvictionPlan(actions=evictions, wake_at=now if len(due) > EVICTION_BATCH else min(ahead, default=NEVER))


def is_over(pod: Pod) -> bool:
    """Return whether a live read shows that a pod ends anyway."""
    return pod.terminal or pod.metadata.deleting


def lacks_condition(pod: Pod) -> bool:
    """Return whether `CONDITION` is still to be set: the pod's owner may count disruptions differently."""
    present = pod.condition(CONDITION.type)
    return present is None or (present.status, present.reason) != (CONDITION.status, CONDITION.reason)


def condition_patch(*, at: str) -> dict[str, Any]:
    """Return the strategic merge patch that sets `CONDITION`."""
    condition = {
        "type": CONDITION.type,
        "status": CONDITION.status,
        "reason": CONDITION.reason,
        "message": CONDITION.message,
        "lastTransitionTime": at,
    }
    return {"status": {"conditions": [condition]}}


def taints_on_node(taints: Iterable[TaintedResult], node: str) -> list[TaintedResult]:
    """Return the taints that count for pods on a node.

    This is stricter than upstream, which compares no nodes: a slice that names a node describes only devices of that
    node, and a client that may write slices for one node, as each node's plugin may, must not evict pods on another.
    """
    return [tainted for tainted in taints if tainted.node in {None, node}]


def eviction_deadline(taints: Iterable[TaintedResult]) -> EvictionDeadline | None:
    """Return the first deadline that the taints of an allocation set; None if all are tolerated for ever."""
    deadlines = (_deadline(tainted) for tainted in taints)
    return min((d for d in deadlines if d is not None), key=_order, default=None)


def _deadline(tainted: TaintedResult) -> EvictionDeadline | None:
    added, seconds = tainted.taint.time_added, tainted.seconds_tolerated()
    if added is None or seconds == NEVER:
        return None
    return EvictionDeadline(added.timestamp() + seconds, tainted, seconds)


def _order(deadline: EvictionDeadline) -> tuple[WallTime, TaintSource, str, str]:
    """Return the sort key of a deadline: time, then source (a rule before a slice, as upstream), origin, and device.

    Of several simultaneous deadlines the same one is therefore reported each time.
    """
    return (deadline.at, deadline.tainted.source, deadline.tainted.origin, deadline.tainted.device)


def unlisted_consumers(view: ClaimView) -> list[Consumer]:
    """Return the consuming pods that upstream does not connect with the claim, except pods that are being deleted.

    Through the entry of a PodGroup upstream sees all pods of the group (1.36, DRAWorkloadResourceClaims). Up to
    1.37.1 it looks for claims in the spec of pods only, so it never finds the claim that serves a pod's extended
    resources (k/k#141290). From 1.37.2 on it finds that claim, and sets the same deadline.
    """
    is_overlooked = view.claim.serves_extended_resources
    return [
        consumer
        for consumer in (*view.started, *view.starting)
        if (is_overlooked or consumer.uid not in view.listed)
        and not consumer.deleting
        and consumer.pod_group not in view.groups
    ]


def _evict(consumer: Consumer, claim: ResourceClaim, deadline: EvictionDeadline) -> EvictPod:
    tainted = deadline.tainted
    reason = pod_reason(
        Code.EVICTED,
        key=consumer.key,
        uid=consumer.uid,
        done=True,
        device=tainted.device,
        claim=claim.metadata.name,
        taint=str(tainted.taint),
        origin=tainted.origin,
        seconds=int(deadline.seconds),
    )
    return EvictPod(pod=consumer.key, uid=consumer.uid, source=tainted.source, reason=reason)
