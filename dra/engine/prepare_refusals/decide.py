"""Decides whether a pod is evicted whose node refuses to prepare the pod's claim.

Such a pod cannot start, and its claim keeps CPUs of the node from all newcomers. The claim is deleted with its pod, so
the scheduler then counts what the driver publishes, and finds the replacement another node or lets it wait.

Evicted is only a pod that loses nothing and is replaced: none of its containers has started, a controller creates a new
pod, and the claim is the pod's alone, made from a request in Koordinator's form in a namespace that has opted in. All
other pods are left to people, with an Event that says why.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias

from dra.api.migration.well_known import EVICTION_COST, MAX_EVICTION_COST
from dra.api.reservations.well_known import LABEL_PLACEHOLDER
from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import Reason, pod_reason
from dra.engine.instants import Instant, doubled
from dra.engine.migration.order import eviction_cost
from dra.engine.plan import Plan
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason, refusal_reason
from dra.engine.translation import template_names
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, OwnerReference, Struct, Uid
from dra.model.pods import ContainerStatus, Pod, PodStatus

RECHECK: Final = 30.0
"""Seconds until the loop decides again about a refused claim whose pod is not evicted."""

PATIENCE: Final = 30.0
"""Seconds of refusals before a pod is evicted: the kubelet tries again every 10 to 15 s, and holders may end."""

MAX_PATIENCE: Final = 600.0
"""Maximum seconds before a replacement is evicted, which the scheduler has bound to the same node again."""

FORGOTTEN_AFTER: Final = 3600.0
"""Seconds after which an eviction no longer delays the next one of the same controller from the same node."""

_NOT_REPLACED: Final = frozenset({"Node", "Reservation"})
"""Kinds of controllers that create no new pod: the kubelet starts a static pod itself again."""


class EvictionObstacle(StrEnum):
    """The reason why a pod is not evicted, as the Event says it."""

    NO_CONTROLLER = "the pod has no controller that would create a new pod"
    SHARED_CLAIM = "the claim was not generated for the pod alone"
    OTHER_FORM = "the claim was not made from a request in Koordinator's form"
    FORBIDDEN = f"annotation {EVICTION_COST} forbids evictions"
    NOT_ENABLED = "the namespace lacks the label reserve.dra/koordinator=enabled"


class StartingPodStatus(PodStatus, frozen=True):
    """``status`` of a Pod, with the state of its containers."""

    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class StartingPod(Pod, frozen=True):
    """A Pod as a live read returns it before an eviction."""

    status: StartingPodStatus = StartingPodStatus()

    @property
    def has_started(self) -> bool:
        """Whether a container of the pod runs or has run."""
        both = (*(self.status.init_container_statuses or ()), *(self.status.container_statuses or ()))
        return any(status.restart_count or _ran(status.state) or _ran(status.last_state) for status in both)


class Refusal(Struct, frozen=True):
    """A refusal as this process has seen it."""

    claim: Uid
    reason: PrepareRefusalReason
    since: Instant

    @property
    def due(self) -> Instant:
        """When claim and pod are to be read."""
        return self.since + PATIENCE


class EvictionHistory:
    """The evictions by controller and node, so that no pod is evicted in a circle at full speed.

    The driver's publication may be stuck; then the scheduler binds each replacement to the same node.
    """

    def __init__(self) -> None:
        self._evictions: dict[tuple[tuple[str, Uid], str], tuple[int, Instant]] = {}

    def patience(self, owner: tuple[str, Uid], node: str, *, now: Instant) -> float:
        """Return the seconds of refusals before a pod of a controller is evicted from a node."""
        count, last = self._evictions.get((owner, node), (0, now))
        return PATIENCE if now - last >= FORGOTTEN_AFTER else doubled((PATIENCE, MAX_PATIENCE), count)

    def record(self, owner: tuple[str, Uid], node: str, *, now: Instant) -> None:
        """Record an eviction, and forget those that no longer count."""
        self._evictions = {
            key: (count, last) for key, (count, last) in self._evictions.items() if now - last < FORGOTTEN_AFTER
        }
        count, _ = self._evictions.get((owner, node), (0, now))
        self._evictions[owner, node] = (count + 1, now)


class RefusedClaimView(Struct, frozen=True):
    """A refused claim and its pod, both read live, and what else a decision about the pod reads."""

    refusal: Refusal
    claim: ResourceClaim | None
    """None if the claim is gone."""

    pod: StartingPod | None
    """None if the pod is gone, or if the claim names none (`refused_pod`)."""

    is_enabled: bool
    """Whether requests of the namespace are translated."""

    history: EvictionHistory


class PodEviction(Struct, frozen=True):
    """The eviction of a pod in the version that the decision has seen."""

    key: Key
    uid: Uid
    resource_version: str
    owner: tuple[str, Uid]
    """Namespace of the pod and uid of its controller: a pod elsewhere may name the same uid."""
    node: str
    cause: PrepareRefusalReason
    reason: Reason
    """The reason to report once the pod is evicted."""


RefusalPlan: TypeAlias = Plan[PodEviction, Reason]


def decide(view: RefusedClaimView, *, now: Instant) -> RefusalPlan:
    """Return the eviction of a pod whose claim has been refused for long, or the reason why the pod stays."""
    claim, pod, since = view.claim, view.pod, view.refusal.since
    cause = refusal_reason(claim) if claim is not None and claim.metadata.uid == view.refusal.claim else None
    if claim is None or cause is None or pod is None or not _waits_on_its_node(pod, claim):
        return RefusalPlan(wake_at=now + RECHECK)
    node, owner = pod.spec.node_name, replacing_controller(pod)
    about = partial(
        pod_reason, key=pod.metadata.key, uid=pod.metadata.uid, node=node, claim=claim.metadata.name, cause=cause
    )
    obstacle = EvictionObstacle.NO_CONTROLLER if owner is None else _obstacle(pod, claim, is_enabled=view.is_enabled)
    if owner is None or obstacle is not None:
        return RefusalPlan(reasons=(about(Code.PREPARE_REFUSED, obstacle=obstacle or ""),), wake_at=now + RECHECK)
    replaced_by = (pod.metadata.namespace, owner.uid)
    due = since + view.history.patience(replaced_by, node, now=now)
    if now < due:
        return RefusalPlan(wake_at=due)
    eviction = PodEviction(
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
        owner=replaced_by,
        node=node,
        cause=cause,
        reason=about(Code.EVICTED_UNPREPARED, done=True, seconds=int(now - since), owner=f"{owner.kind} {owner.name}"),
    )
    return RefusalPlan(actions=(eviction,), wake_at=now + RECHECK)


def refused_pod(claim: ResourceClaim) -> tuple[str, Uid] | None:
    """Return name and uid of the pod that a claim was generated for, or of the only pod that the claim lists."""
    if (owner := claim.owning_pod) is not None:
        return owner.name, owner.uid
    pods = [entry for entry in claim.entries if entry.is_pod]
    return (pods[0].name, pods[0].uid) if len(pods) == 1 else None


def replacing_controller(pod: Pod) -> OwnerReference | None:
    """Return the controller that replaces a pod; None if there is none."""
    owner = pod.metadata.controller
    return owner if owner is not None and owner.kind not in _NOT_REPLACED else None


def _waits_on_its_node(pod: StartingPod, claim: ResourceClaim) -> bool:
    """Return whether the pod of a claim, and not another one of its name, is bound and has not started."""
    is_placeholder = LABEL_PLACEHOLDER in (pod.metadata.labels or {})
    ends = pod.terminal or pod.metadata.deleting
    is_named = refused_pod(claim) == (pod.metadata.name, pod.metadata.uid)
    return is_named and bool(pod.spec.node_name) and not (ends or pod.has_started or is_placeholder)


def _obstacle(pod: StartingPod, claim: ResourceClaim, *, is_enabled: bool) -> EvictionObstacle | None:
    if eviction_cost(pod) == MAX_EVICTION_COST:
        return EvictionObstacle.FORBIDDEN
    uid = pod.metadata.uid
    if claim.generated_for != uid or any(entry.uid != uid for entry in claim.entries):
        return EvictionObstacle.SHARED_CLAIM
    if claim.metadata.name not in _translated_claims(pod):
        return EvictionObstacle.OTHER_FORM
    return None if is_enabled else EvictionObstacle.NOT_ENABLED


def _translated_claims(pod: Pod) -> Iterable[str]:
    """Return the claims of a pod that are generated from templates of translated requests."""
    translated = {
        entry.name
        for entry in pod.spec.resource_claims or ()
        if template_names.parse(entry.resource_claim_template_name or "") is not None
    }
    return [
        status.resource_claim_name
        for status in pod.status.resource_claim_statuses or ()
        if status.name in translated and status.resource_claim_name
    ]


def _ran(state: dict[str, object] | None) -> bool:
    return bool(state and state.keys() - {"waiting"})
