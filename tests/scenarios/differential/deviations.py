"""Where a script ends because stock does what nobody should take over from it, each with its reason.

Such scripts are left out and counted, by kind. Whatever is not named here must be equal.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.scenarios import features
from tests.scenarios.differential import symptoms
from tests.scenarios.features import Feature

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.differential.settling import Settling


class Deviation(StrEnum):
    """What stock does."""

    NEVER_SETTLES = "stock never settles"
    """Two known loops. A finished pod beside others: listed, pruned, listed (k/k#141274). A pod of several templates
    whose one generated claim was deleted: each server-side apply names the new claim only and so drops the others."""

    LISTS_FINISHED_POD = "stock lists a finished pod"
    """The same mistake where it ends: the pod is the only one, so that pruning it takes back the allocation. Ours lists
    no pod that has ended; an allocation that nobody uses stays."""

    REMEMBERS_DELETED_CLAIM = "stock takes a deleted claim for present"
    """Its cache of claims that it made forgets one only when it has made a hundred others: until then a generated claim
    that somebody deleted is found there, and not made again. Ours makes it again."""

    DROPS_RECORDS = "stock drops a generated claim from its pod's status"
    """What it applies names only the claims that it has just found or made: the second of the two loops, where that
    happens to end."""

    MIXES_UP_ENTRIES = "stock notes another pod's entry on a generated claim"
    """It writes the annotation into its cached copy of a template that has annotations itself: pods that are served at
    the same time get each other's. Ours copies."""

    REPLACES_BY_CHANCE = "stock replaces somebody else's claim in a pod's status when it happens to look"
    """That such a claim is named is no reason for it to look; a retry that is still under way for another reason is.
    Ours replaces it when there is something else to do for the pod."""

    SERVES_ENDED_POD = "stock makes claims for a pod that has ended"
    """Its check of what a pod lacks does not ask for the phase; what it makes it deletes again. Ours makes none."""

    OVERLOOKS_ORPHAN = "stock overlooks a claim of an ended pod that its status does not name"
    """It deletes those that the status names, when the pod ends; others when they change next. Ours deletes both."""

    STOPS_AT_MISSING_CLAIM = "stock reserves nothing after the first missing claim"
    """It goes through the claims of a bound pod in their order and stops where one is not there, or where one cannot be
    generated even before it begins. Ours looks at each claim for itself. The pod starts with neither before all of them
    are there."""

    OVERLOOKS_STRANGER = "stock overlooks the end of a pod that never named the claim"
    """Somebody listed it all the same. Stock looks at the claim again when it changes next, and so does ours; either
    may be sooner by chance: a retry, or another reason to look."""

    HOLDS_DELETED_CLAIM = "stock holds a deleted claim for pods that wait"
    """No scheduler begins to bind a pod to a claim that is being deleted. Ours lets go of those that were listed when
    none of its cycles can be under way any more (rule 10)."""

    LEAVES_MIXED_LIST = "stock prunes no list with an entry of another object than a pod"
    """Before 1.36: it logs `unsupported ReservedFor entry`, and neither prunes the list nor lets go of the claim. Ours
    prunes the pods."""

    WAITS_FOR_MISSING_CLAIM = "stock does nothing for a pod behind its first claim that is missing"
    """Before 1.36 it stops at the first claim that is not there, or that belongs to somebody else, not only where it
    reserves: the claims of templates behind it are not made, and nobody is told what is wrong with them."""

    FREES_USED_CLAIM = "stock frees a claim under a bound pod that is not listed"
    """A pod is not listed any more once it, or the claim, is being deleted; so stock forgets such a pod, and the
    devices go while it may be running. The same may happen in the moment before it lists a bound pod, when the last
    one that is listed ends. Ours keeps the claim until the pod has ended, behind a guard if it cannot be listed."""

    LEAVES_FINALIZER = "stock leaves the finalizer on a claim that is not allocated"
    """A scheduler that fails between the finalizer and the allocation leaves the finalizer there, and so does stock
    until the claim is deleted. Ours removes it a minute later, when no scheduler can be about to allocate the claim."""

    DROPS_UNSEEN_POD = "stock drops the entry of a pod that neither controller has ever seen"
    """The pod may have been deleted by force while no controller ran, and its kubelet ends its containers only after a
    grace period. Ours keeps the entry for minutes: nobody knows the node or the grace period (rule 12)."""


PATIENCE: Final = 30.0
"""Seconds after which stock would have settled, if it did."""

SURE: Final = 5.0
"""Seconds at rest after which nobody is about to do something: stock's own retries double from 5 ms on."""


def found(stock: Settling) -> Deviation | None:
    """Return what stock is seen to do in this round, whether or not both sides look alike."""
    if stock.restless or (stock.age > PATIENCE and not stock.at_rest):
        return Deviation.NEVER_SETTLES
    if symptoms.lists_finished_pod(stock):
        return Deviation.LISTS_FINISHED_POD
    return Deviation.OVERLOOKS_STRANGER if stock.at_rest and symptoms.lists_nobody(stock) else None


def waits_for_vanished_pods(stock: Settling, other: Settling) -> bool:
    """Tell whether the other side keeps more for pods that were deleted by force: it will be equal a while later.

    The kubelet ends the containers of such a pod only after a grace period. Stock frees the claim at once, ours when
    they have certainly ended (rule 12).
    """
    return bool(symptoms.kept_for_vanished_pods(other) - symptoms.kept_for_vanished_pods(stock))


def explains_difference(stock: Settling, other: Settling) -> Deviation | None:
    """Return what stock does, where that is known only from what both sides look like in the end."""
    if min(stock.resting, other.resting) < SURE:
        return None
    version = features.kubernetes_version()
    old = {each: shows for each, (feature, shows) in OF_OLD_VERSIONS.items() if not feature.among(version)}
    return next((deviation for deviation, shows in (old | EXPLANATIONS).items() if shows(stock, other)), None)


def _frees_used_claim(stock: Settling, other: Settling) -> bool:
    """A claim that only the other side holds is listed there for a bound pod, or its pod cannot be listed."""
    held = symptoms.allocations(other) - symptoms.allocations(stock)
    listed = symptoms.reservations(other)
    return symptoms.keeps_claim_of_unlisted_user(other) or any(
        listed[pod] & held for pod in symptoms.bound_pods(other) if pod in listed
    )


def _stops_at_missing_claim(stock: Settling, other: Settling) -> bool:
    mine, others = symptoms.reservations(stock), symptoms.reservations(other)
    return any(others[pod] - mine[pod] for pod in symptoms.bound_pods_that_miss_claims(stock))


def _leaves_mixed_list(stock: Settling, other: Settling) -> bool:
    """A mixed list names somebody, or holds a claim, that the other side has let go of."""
    mixed, others = symptoms.mixed_lists(stock), symptoms.mixed_lists(other)
    return any(names - others.get(claim, set()) for claim, names in mixed.items())


def _waits_for_missing_claim(stock: Settling, other: Settling) -> bool:
    """The other side has told of, made or named more for a pod of which a claim is missing.

    Stock may be slow for as long: its events and its writes wait in queues of all scripts.
    """
    if stock.resting < PATIENCE:
        return False
    kept = symptoms.pods_that_wait_for_users(stock)
    told = {pod for pod, _ in symptoms.told(other) - symptoms.told(stock)}
    mine, others = symptoms.records(stock), symptoms.records(other)
    return bool(kept & told) or any(others.get(pod, {}).keys() - mine.get(pod, {}).keys() for pod in kept)


def _remembers_deleted_claim(stock: Settling, other: Settling) -> bool:
    missing = symptoms.pods_that_name_missing_claims(stock)
    told = {pod for pod, _ in symptoms.told(other) - symptoms.told(stock)}
    return bool(missing & told or missing - symptoms.pods_that_name_missing_claims(other))


def _serves_ended_pod(stock: Settling, other: Settling) -> bool:
    told = {pod for pod, _ in symptoms.told(stock) - symptoms.told(other)}
    differ = symptoms.records_of_ended_pods(stock) != symptoms.records_of_ended_pods(other)
    return differ or bool(told & symptoms.pods_that_ever_ended(stock))


EXPLANATIONS: Final[dict[Deviation, Callable[[Settling, Settling], bool]]] = {
    Deviation.FREES_USED_CLAIM: _frees_used_claim,
    Deviation.DROPS_UNSEEN_POD: lambda stock, other: bool(
        symptoms.entries_of_unseen_pods(other) - symptoms.entries_of_unseen_pods(stock)
    ),
    Deviation.LEAVES_FINALIZER: lambda stock, other: bool(
        symptoms.protected_for_nothing(stock) - symptoms.protected_for_nothing(other)
    ),
    Deviation.MIXES_UP_ENTRIES: lambda stock, _: symptoms.notes_wrong_entry(stock),
    Deviation.REMEMBERS_DELETED_CLAIM: _remembers_deleted_claim,
    Deviation.DROPS_RECORDS: lambda stock, other: bool(
        symptoms.pods_with_unrecorded_claims(stock) - symptoms.pods_with_unrecorded_claims(other)
    ),
    Deviation.REPLACES_BY_CHANCE: lambda stock, other: bool(
        symptoms.pods_that_name_others_claims(other) - symptoms.pods_that_name_others_claims(stock)
    ),
    Deviation.SERVES_ENDED_POD: _serves_ended_pod,
    Deviation.OVERLOOKS_ORPHAN: lambda stock, other: (
        symptoms.orphans_of_ended_pods(stock) > symptoms.orphans_of_ended_pods(other)
    ),
    Deviation.OVERLOOKS_STRANGER: lambda _, other: symptoms.lists_ended_stranger(other),
    Deviation.HOLDS_DELETED_CLAIM: lambda stock, _: symptoms.holds_deleted_claim(stock),
    Deviation.STOPS_AT_MISSING_CLAIM: _stops_at_missing_claim,
}

OF_OLD_VERSIONS: Final[dict[Deviation, tuple[Feature, Callable[[Settling, Settling], bool]]]] = {
    Deviation.LEAVES_MIXED_LIST: (Feature.PRUNED_MIXED_LISTS, _leaves_mixed_list),
    Deviation.WAITS_FOR_MISSING_CLAIM: (Feature.CLAIMS_BESIDE_MISSING, _waits_for_missing_claim),
}
"""What stock does only in versions that lack a feature."""
