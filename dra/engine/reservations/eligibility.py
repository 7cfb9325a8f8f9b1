"""Which reservations a pod may take, whether or not there is room: rules in order, the first that fails says why.

1. It is available, readable, not on its way out, and not used up (``allocateOnce``).
2. The pod is an owner.
3. A pod that names a reservation gets that one; taints, cordon and selectors do not count then.
4. Else a cordoned one needs a toleration of ``node.kubernetes.io/unschedulable``; taints repel. Tolerations are those
   of the pod's reservation affinity, not of its spec. A pod without affinity tolerates nothing. (Koordinator's code
   lets it pass all taints, the reverse of what they are for.)
5. What the affinity selects: labels of the node, overlaid by the reservation's.
6. Exact match: of each named resource the reservation holds what the pod wants; none on both sides is a match.
7. A pod that does not ask for a reservation is not concerned by one with which it has no resource in common; of policy
   Restricted the restricted resources count.
"""

from collections.abc import Mapping
from typing import Final

from dra.api.reservations.model import TaintEffect
from dra.engine.reservations import owners
from dra.engine.reservations.amounts import PODS
from dra.engine.reservations.claimants import Affinity, Claimant
from dra.engine.reservations.holdings import Holding
from dra.engine.reservations.refusals import Refusal, Why
from dra.model.nodes import matches
from dra.model.placement import Toleration

_CORDON: Final = "node.kubernetes.io/unschedulable"
_REPELS: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})


def judge(holding: Holding, pod: Claimant, *, node_labels: Mapping[str, str], consumers: int) -> Refusal | None:
    """Return why a pod may not take a reservation; None if it may."""
    return unwelcome(holding, pod, node_labels=node_labels, consumers=consumers) or _unlike(holding, pod)


def unwelcome(holding: Holding, pod: Claimant, *, node_labels: Mapping[str, str], consumers: int = 0) -> Refusal | None:
    """Return why a pod may not take a reservation, whatever amounts both are about (rules 1 to 5)."""
    if why := unusable(holding, consumers=consumers):
        return Refusal(why=why, subject=holding.fault)
    if holding.allocate_once and holding.listed - holding.predecessors - {pod.uid}:
        return Refusal(why=Why.USED_UP)  # by a pod that is not to be seen, perhaps because it came and went
    if not owners.matches(holding.owners, pod):
        return Refusal(why=Why.NOT_OWNER)
    return _unwelcome(holding, pod.affinity, node_labels)


def _unwelcome(holding: Holding, affinity: Affinity | None, node_labels: Mapping[str, str]) -> Refusal | None:
    if affinity is not None and affinity.name:
        return None if affinity.name == holding.name else Refusal(why=Why.OTHER_NAME)
    if refusal := _repelled(holding, affinity):
        return refusal
    if affinity is not None and not _selected(holding, affinity, node_labels):
        return Refusal(why=Why.AFFINITY)
    return None


def _unlike(holding: Holding, pod: Claimant) -> Refusal | None:
    if any(holding.amounts.get(name, 0) != pod.amounts.get(name, 0) for name in pod.exact):
        return Refusal(why=Why.NOT_EXACT)
    if pod.affinity is None and not in_common(holding, pod):
        return Refusal(why=Why.NOTHING_IN_COMMON)
    return None


def in_common(holding: Holding, pod: Claimant) -> bool:
    """Whether a pod takes some of what a reservation is for."""
    return any(amount and name != PODS and holding.serves(name) for name, amount in pod.amounts.items())


def suits(holding: Holding, pod: Claimant, *, node_labels: Mapping[str, str]) -> bool:
    """Whether a running pod may be in a reservation that is about to be placed over it (rules 3 to 7)."""
    refused = _unwelcome(holding, pod.affinity, node_labels) or _unlike(holding, pod)
    return refused is None and in_common(holding, pod)


def unusable(holding: Holding, *, consumers: int) -> Why | None:
    """Return why nobody at all may take it now."""
    if not holding.available:
        return Why.NOT_AVAILABLE
    if holding.fault:
        return Why.UNREADABLE
    if holding.terminating:
        return Why.TERMINATING
    if holding.allocate_once and consumers:
        return Why.USED_UP
    return None


def _repelled(holding: Holding, affinity: Affinity | None) -> Refusal | None:
    tolerations = affinity.tolerations if affinity is not None else ()
    if holding.unschedulable and not _tolerated(_CORDON, "", TaintEffect.NO_SCHEDULE, tolerations):
        return Refusal(why=Why.UNSCHEDULABLE)
    for taint in holding.taints:
        if taint.effect in _REPELS and not _tolerated(taint.key, taint.value, taint.effect, tolerations):
            return Refusal(why=Why.TAINTED, subject=str(taint))
    return None


def _tolerated(key: str, value: str, effect: TaintEffect, tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        each.effect in ("", effect)
        and (each.key in ("", key) if each.operator == "Exists" else (each.key, each.value) == (key, value))
        for each in tolerations
    )


def _selected(holding: Holding, affinity: Affinity, node_labels: Mapping[str, str]) -> bool:
    labels = {**node_labels, **holding.labels}
    return all(labels.get(key) == value for key, value in affinity.selector.items()) and matches(
        affinity.terms, name=holding.name, labels=labels
    )
