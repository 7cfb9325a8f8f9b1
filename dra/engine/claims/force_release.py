"""Forced release: a claim is released in spite of doubt because a user confirms that no pod uses the claim.

The annotation carries the uid of the claim, so a manifest that is applied again, or copied for the next claim, has no
effect. Known facts are not overridden: a pod bound to a node whose kubelet reports in uses the claim, and a pod that
was listed lately may be bound at any moment.
"""

from collections.abc import Iterator
from typing import Final

from dra.engine.claims.codes import Code
from dra.engine.claims.deallocation import nominated_pods, still_bindable
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.reasons import Reason, list_names
from dra.engine.claims.view import ClaimView, EntryKind
from dra.engine.claims.window import UNLISTED
from dra.engine.instants import NEVER, WATCH_OUTAGE_UNNOTICED, Instant
from dra.model.workload_reservations import FORCE_RELEASE

_DOUBTFUL: Final = frozenset(
    {EntryKind.WORKLOAD, EntryKind.FORMER, EntryKind.UNKNOWN, EntryKind.FOREIGN, EntryKind.RESERVATION}
)


def force_release_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Release the claim if its annotation carries its uid and no pod is known to use the claim."""
    del policy
    value = view.claim.metadata.annotation(FORCE_RELEASE)
    if value is None:
        return desired
    if value != view.claim.metadata.uid:
        return desired.with_reasons(view.reason(Code.FORCE_RELEASE_IGNORED))
    if view.allocation is None:
        return _without_annotation(desired)  # nothing to release; the next allocation is not addressed
    obstacle = _obstacle(view, now)
    if obstacle is not None:
        return desired.wake_by(min(_watch_caught_up_at(view, now), default=NEVER)).with_reasons(obstacle)
    # No further pod may come to rely on the allocation.
    for_many = view.admits_any_pod or (desired.workload is not None and desired.workload.is_pod_group)
    desired = desired.replace(revoking=True, urgent=True, workload=None if for_many else desired.workload)
    late = still_bindable(view, now, gated=view.gated)
    until = max((when for _, when in late), default=now)
    until = max(until, view.unseen_bindable_until(now=now))
    if until > now:
        waits = view.reason(Code.FORCE_RELEASE_WAITS, pods=len(late), seconds=int(view.unseen_bind_horizon))
        return desired.wake_by(until).with_reasons(waits)
    freed = view.reason(Code.FORCE_RELEASED, done=True, overridden=list_names(_overridden(view)) or "nothing")
    desired = _without_annotation(desired).replace(allocated=False, confirm=True)
    return desired.replace(given_up=view.pods_on_silent_nodes, nominated=nominated_pods(view)).with_reasons(freed)


def _obstacle(view: ClaimView, now: Instant) -> Reason | None:
    """Return the obstacle that no user can override: pods on nodes whose kubelets report in use the claim.

    A vanished pod has ended on any such node when its time is over. The same holds where its node is unknown: the nodes
    of the allocation that do not report in are known then, and take the place of the pod
    (`dra.engine.claims.vanished_pods`).
    """
    users = sorted(c.name for c in view.users if c.uid not in view.pods_on_silent_nodes)
    if users:
        return view.reason(Code.FORCE_RELEASE_BLOCKED, pods=len(users), names=list_names(users))
    unread = sum(1 for e in view.entries if e.kind is EntryKind.UNKNOWN and e.live_read_at is None)
    if unread:  # the watch may be behind; `kept_entries_rule` looks up whether the pod runs
        return view.reason(Code.FORCE_RELEASE_WAITS, pods=unread, seconds=int(view.unseen_bind_horizon))
    unshown = sum(1 for _ in _watch_caught_up_at(view, now))
    if unshown:
        return view.reason(
            Code.FORCE_RELEASE_WAITS, pods=unshown, seconds=int(view.unseen_bind_horizon + WATCH_OUTAGE_UNNOTICED)
        )
    running = [pod for pod in view.vanished if pod.node or now < pod.ended_at]
    if not running:
        return None
    seconds = max(int(pod.seconds_to_end) for pod in running)  # `lost_nodes_rule` decides again at its end
    return view.reason(Code.FORCE_RELEASE_WAITS, pods=len(running), seconds=seconds)


def _watch_caught_up_at(view: ClaimView, now: Instant) -> Iterator[Instant]:
    """Yield until when the pods watch will have shown each listed pod that only a live read has shown, and as unbound.

    Such a pod may reference the claim after all: the watch may be behind, and a scheduler lists a pod right before it
    binds it.
    """
    for entry in view.entries:
        since = view.entry_histories.get(entry.reference.uid, UNLISTED).listed_since
        if entry.reference.is_pod and entry.consumer is None and entry.live_read_at is not None and since is not None:
            shown = since + view.unseen_bind_horizon + WATCH_OUTAGE_UNNOTICED
            if now < shown:
                yield shown


def _without_annotation(desired: Desired) -> Desired:
    return desired.replace(annotations={**desired.annotations, FORCE_RELEASE: None})


def _overridden(view: ClaimView) -> Iterator[str]:
    """Yield descriptions of everything that would have kept the claim."""
    for entry in view.entries:
        if entry.kind in _DOUBTFUL:
            yield f"entry {entry.reference}"
    yield from (f"node {node.name}" for node in view.lost_nodes)
    yield from (f"pod {c.name} on node {c.node}" for c in view.users)
