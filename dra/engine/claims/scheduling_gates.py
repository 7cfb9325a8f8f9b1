"""When this project's scheduling gate is removed from a pod: rule Gate.

A gate can be removed but never put back, so this happens late and in one global order (priority, then age): an ungated
pod is in the scheduler's hands, and ungating too early costs what the gate was to save.
"""

from collections.abc import Iterable
from typing import Final

from dra.engine.claims.actions import ClaimPlan, Ungate
from dra.engine.claims.consumers import SCHEDULING_GATE, Consumer
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView, EntryKind
from dra.engine.instants import BIND_HORIZON, NEVER, Instant
from dra.model.claims import RESERVED_FOR_MAX_SIZE

OPENER_TURN: Final = 10.0
"""Seconds for which an unschedulable opener keeps its turn."""

DEMAND_MAX: Final = 110
"""Maximum number of pods of an unallocated claim that are ungated because no node took the opener. Autoscalers see only
ungated pods, and add a node for the pods that they see; a node takes 110 pods by default (kubelet, ``maxPods``)."""

UNGATE_BATCH: Final = 32
UNGATE_INTERVAL: Final = 0.1
"""Seconds between plans that ungate pods of an allocated claim, `UNGATE_BATCH` pods each.

The claim is decided again once the patches of a plan are done: otherwise a pod that a scheduler binds meanwhile would
wait for hundreds of patches before it is listed.
"""

MISSING_CLAIM_GRACE: Final = 2.0
"""Seconds for which a claim may be missing before its pods are ungated: claims and pods come by separate watches."""


def scheduling_gates_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Ungate pods: a claim's own pod at once, listed pods, and one opener while the claim is unallocated."""
    del policy
    return _ungate_first(view, _ungate_ready(view, now, desired))


def _ungate_first(view: ClaimView, desired: Desired) -> Desired:
    """Ungate the pods whose other gates are removed only after this project's; they are listed once ungated."""
    first = tuple(c for c in view.gated if c.precedes_other_gates)
    return desired.replace(ungate=(*desired.ungate, *first)) if first else desired


def _ungate_ready(view: ClaimView, now: Instant, desired: Desired) -> Desired:
    ready = sorted((c for c in view.gated if c.gated_by_us_only), key=lambda c: c.scheduling_order)
    if not ready:
        return desired
    owner = view.claim.generated_for
    if owner is not None:
        own = (c for c in ready if (c.uid == owner and c.uid not in view.awaiting_other_claims) or c.uid in view.listed)
        return desired.replace(ungate=tuple(own))
    # A gate cannot be put back: no pod is let go towards an allocation that is about to end.
    if view.claim.metadata.deleting or desired.revoking or not desired.allocated:
        return desired
    free = [c for c in ready if c.uid not in view.awaiting_other_claims]
    # A pod whose turn is over is one that the scheduler has given up for now, or never takes: other pods do not wait
    # for it.
    tried = [end for c in view.waiting if (end := opener_turn_ends_at(c)) > now]
    free_slots = max(RESERVED_FOR_MAX_SIZE - len(tried), 0)
    if not free_slots:
        desired = desired.wake_by(min(tried))
    if view.allocation is None:
        openers, when = _openers(view.waiting, free, now=now)
        return desired.replace(ungate=openers[:free_slots]).wake_by(when)
    entered = view.admits_any_pod and EntryKind.WORKLOAD in view.kinds
    stay = {c.uid for c in desired.pods}  # a pod about to lose its entry to a more urgent pod waits for the next entry
    ungated = [c for c in free if entered or c.pod_group or (c.uid in view.listed and c.uid in stay)][:free_slots]
    then = desired.replace(ungate=tuple(ungated[:UNGATE_BATCH]))
    return then.wake_by(now + UNGATE_INTERVAL) if len(ungated) > UNGATE_BATCH else then


def _openers(
    waiting: tuple[Consumer, ...], free: list[Consumer], *, now: Instant
) -> tuple[tuple[Consumer, ...], Instant]:
    """Return the pods to ungate so that the claim gets allocated, and when to decide again.

    Only one opener at a time: several pods that allocate one claim concurrently make each other fail. A gang is one
    opener, since its pods need each other: pods that are created later join the gang's turn. Once a scheduler has found
    no node for the opener, up to `DEMAND_MAX` pods follow at once: an autoscaler that saw one pod would add a node for
    one pod.
    """
    having_turn = openers_with_turn(waiting, now=now)
    if having_turn:
        gangs = {c.gang for c in having_turn if c.gang}
        return tuple(c for c in free if c.gang in gangs), max(map(opener_turn_ends_at, having_turn))
    if not free:
        return (), NEVER
    first = free[0]
    together = tuple(c for c in free if c.gang == first.gang) if first.gang else (first,)
    if any(c.unschedulable_since is not None for c in waiting):
        others = [c for c in free if c not in together]
        together += tuple(others[: max(DEMAND_MAX - len(waiting) - len(together), 0)])
    return together, now + OPENER_TURN


def openers_with_turn(waiting: Iterable[Consumer], *, now: Instant) -> tuple[Consumer, ...]:
    """Return the ungated waiting pods for which other pods wait.

    The turn of a gang is that of the pod that has waited longest: a pod that joins the gang later does not extend it,
    or a gang that gets one pod after the other would keep its turn for ever.
    """
    first: dict[str, Consumer] = {}
    for consumer in waiting:
        opener = consumer.gang or consumer.uid
        known = first.setdefault(opener, consumer)
        if (consumer.stage_since, -opener_turn_ends_at(consumer)) < (known.stage_since, -opener_turn_ends_at(known)):
            first[opener] = consumer
    return tuple(c for c in first.values() if opener_turn_ends_at(c) > now)


def opener_turn_ends_at(consumer: Consumer) -> Instant:
    """Return when the turn of an ungated waiting pod ends, if the pod is an opener."""
    if consumer.unschedulable_since is not None:
        return consumer.unschedulable_since + OPENER_TURN
    return consumer.stage_since + BIND_HORIZON


def ungate_without_claim(consumers: Iterable[Consumer], *, now: Instant) -> ClaimPlan:
    """Ungate pods that have nothing to wait for: no claim of that name, or only claims of their own."""
    ungate, wake_at = [], NEVER
    for consumer in sorted(consumers, key=lambda c: c.scheduling_order):
        if not (consumer.gated_by_us_only or consumer.precedes_other_gates):
            continue
        if now >= consumer.first_seen + MISSING_CLAIM_GRACE:
            ungate.append(ungate_action(consumer))
        else:
            wake_at = min(wake_at, consumer.first_seen + MISSING_CLAIM_GRACE)
    return ClaimPlan(actions=tuple(ungate), wake_at=wake_at)


def ungate_action(consumer: Consumer) -> Ungate:
    """Return the action that ungates a pod."""
    others = tuple(gate for gate in consumer.gates if gate != SCHEDULING_GATE)
    return Ungate(pod=consumer.key, uid=consumer.uid, resource_version=consumer.resource_version, other_gates=others)
