"""Previews of DeviceTaintRules before they are applied: the devices that a rule taints, the pods that it evicts.

The rules are those of the eviction itself (`dra.engine.claims.eviction`): of a pod with several tainted devices the
earliest deadline counts, and a pod that is listed in its claim is evicted by kube-controller-manager alike.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from dra.engine.claims.eviction import eviction_deadline, taints_on_node
from dra.engine.devices.taints import TaintIndex, scope_of_rule
from dra.engine.diagnosis.claims import controller_name
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import devices
from dra.model.meta import Key, Struct, Uid
from dra.model.taints import DeviceTaintRule


class PreviewedEviction(Struct, frozen=True):
    """A pod that a rule would evict."""

    pod: Key
    uid: Uid
    node: str
    claim: str
    device: str
    seconds: int
    """Seconds until the eviction: the shortest toleration of the pod's claims, counted from the rule's time."""

    owner: str
    """The controller that replaces the pod, such as ``job train``; empty if there is none."""


class RulePreview(Struct, frozen=True):
    """The effects of one DeviceTaintRule."""

    rule: str
    taint: str
    devices: int
    """Number of published devices that the rule would taint."""

    held: int
    """Number of them that claims hold."""

    selects_all: bool
    """Whether the rule has an empty selector, and so selects every device of every driver."""

    is_void: bool
    """Whether the rule has no selector, or criteria that no Kubernetes of today knows, and so selects no device."""

    evictions: tuple[PreviewedEviction, ...] = ()


def preview(cluster: ClusterState, rule: DeviceTaintRule, *, now: datetime) -> RulePreview:
    """Return what a rule would do if it were created, or changed, at a time."""
    rule = with_time(rule, now=now)
    scope = scope_of_rule(rule)
    tainted = [device for device in devices(cluster) if scope is not None and scope.covers(device.item)]
    return RulePreview(
        rule=rule.metadata.name,
        taint=str(rule.spec.taint),
        devices=sum(device.offered for device in tainted),
        held=sum(bool(device.holders) for device in tainted),
        selects_all=scope is not None and not any(scope),
        is_void=scope is None,
        evictions=tuple(_first_evictions(_evictions(cluster, rule, now=now))),
    )


def with_time(rule: DeviceTaintRule, *, now: datetime) -> DeviceTaintRule:
    """Return a rule whose taint has a time, as the API server sets it."""
    taint = rule.spec.taint
    if taint.time_added is not None:
        return rule
    taint = msgspec.structs.replace(taint, time_added=now)
    return msgspec.structs.replace(rule, spec=msgspec.structs.replace(rule.spec, taint=taint))


def _evictions(cluster: ClusterState, rule: DeviceTaintRule, *, now: datetime) -> Iterator[PreviewedEviction]:
    index = TaintIndex()
    index.observe_rule(rule)
    index.slices_known()
    for claim in cluster.snapshot.claims:
        taints = index.taints_of(claim.status.allocation)
        view = cluster.view(claim.metadata.key) if taints else None
        for consumer in (*view.started, *view.starting) if view is not None else ():
            deadline = eviction_deadline(taints_on_node(taints, consumer.node))
            if deadline is not None and not consumer.deleting:
                yield PreviewedEviction(
                    pod=consumer.key,
                    uid=consumer.uid,
                    node=consumer.node,
                    claim=claim.metadata.name,
                    device=deadline.tainted.device,
                    seconds=max(int(deadline.at - now.timestamp()), 0),
                    owner=controller_name(cluster, consumer),
                )


def _first_evictions(evictions: Iterable[PreviewedEviction]) -> Iterable[PreviewedEviction]:
    """Return the first eviction of each pod, by time and name."""
    first: dict[Uid, PreviewedEviction] = {}
    for eviction in sorted(evictions, key=_order):
        first.setdefault(eviction.uid, eviction)
    return first.values()


def _order(eviction: PreviewedEviction) -> tuple[int, Key, str]:
    return (eviction.seconds, eviction.pod, eviction.device)
