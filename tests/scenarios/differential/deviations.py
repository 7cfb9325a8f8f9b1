"""Where a script ends because stock does what nobody should take over from it, each with its reason.

Such scripts are left out and counted, by kind. Whatever is not named here must be equal.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import allocated, bound, entries, finished, listed, revision
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from tests.scenarios.differential.settling import Settling

Json = dict[str, Any]


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

    STOPS_AT_MISSING_CLAIM = "stock reserves nothing after the first missing claim"
    """It goes through the claims of a bound pod in their order and stops where one is not there. Ours looks at each
    claim for itself. The pod starts with neither before all of them are there."""

    OVERLOOKS_STRANGER = "stock overlooks the end of a pod that never named the claim"
    """Somebody listed it all the same. Stock looks at the claim again when it changes next; ours may be sooner."""

    HOLDS_DELETED_CLAIM = "stock holds a deleted claim for pods that wait"
    """No scheduler begins to bind a pod to a claim that is being deleted. Ours lets go of those that were listed when
    none of its cycles can be under way any more (rule 10)."""

    FREES_USED_CLAIM = "stock frees a claim under a bound pod that is not listed"
    """A pod is not listed any more once it, or the claim, is being deleted; so stock forgets such a pod, and the
    devices go while it may be running. Ours keeps the claim until the pod has ended, behind a guard."""


PATIENCE: Final = 30.0
"""Seconds after which stock would have settled, if it did."""

SURE: Final = 5.0
"""Seconds at rest after which stock is not about to do something: its own retries double from 5 ms on."""


def found(stock: Settling) -> Deviation | None:
    """Return what stock is seen to do in this round, whether or not both sides look alike."""
    if stock.restless or (stock.age > PATIENCE and not stock.at_rest):
        return Deviation.NEVER_SETTLES
    return Deviation.LISTS_FINISHED_POD if _lists_finished_pod(stock) else None


def explains_difference(stock: Settling, other: Settling) -> Deviation | None:
    """Return what stock does, where that is known only from what it leaves undone."""
    if min(stock.resting, other.resting) < SURE:
        return None
    if any(_generated(pod) - _names(stock) for pod in _living(stock)):
        return Deviation.REMEMBERS_DELETED_CLAIM
    if any(entry["uid"] in _over(stock) for claim in stock.sight.of(CLAIMS) for entry in entries(claim)):
        return Deviation.OVERLOOKS_STRANGER
    if any(_deleting(claim) and listed(claim) & _waiting(stock) for claim in stock.sight.of(CLAIMS)):
        return Deviation.HOLDS_DELETED_CLAIM
    users = [pod for pod in _living(stock) if bound(pod) and not finished(pod)]
    if any(_wanted(pod) - _names(stock) for pod in users):
        return Deviation.STOPS_AT_MISSING_CLAIM
    return Deviation.FREES_USED_CLAIM if _forgotten_user(other) else None


def _lists_finished_pod(stock: Settling) -> bool:
    listed: dict[str, set[str]] = {}
    for claim in stock.sight.claim_versions:
        uid, uids = claim["metadata"]["uid"], {entry["uid"] for entry in entries(claim)}
        late = (stock.sight.ended.get(pod) for pod in uids - listed.get(uid, set()))
        if any(end is not None and end < int(revision(claim)) for end in late) and not stock.is_ours(claim):
            return True
        listed[uid] = uids
    return False


def _forgotten_user(side: Settling) -> bool:
    """Tell whether a bound pod cannot be listed any more in an allocated claim that it wants."""
    users = [pod for pod in side.sight.of(PODS) if bound(pod) and not finished(pod)]
    return any(
        claim["metadata"]["name"] in _wanted(pod)
        and pod["metadata"]["name"] not in listed(claim)
        and (_deleting(pod) or _deleting(claim))
        for claim in side.sight.of(CLAIMS)
        if allocated(claim)
        for pod in users
    )


def _waiting(side: Settling) -> set[str]:
    return {pod["metadata"]["name"] for pod in _living(side) if not (bound(pod) or finished(pod))}


def _over(side: Settling) -> set[str]:
    pods = side.sight.of(PODS)
    alive = {pod["metadata"]["uid"] for pod in pods if bound(pod) and not finished(pod)}
    alive |= {pod["metadata"]["uid"] for pod in pods if not (bound(pod) or finished(pod) or _deleting(pod))}
    return {uid for uid, obj in side.sight.ever.items() if "containers" in obj["spec"]} - alive


def _living(side: Settling) -> list[Json]:
    return [pod for pod in side.sight.of(PODS) if not _deleting(pod)]


def _names(side: Settling) -> set[str]:
    return {claim["metadata"]["name"] for claim in side.sight.of(CLAIMS)}


def _generated(pod: Json) -> set[str]:
    named = (each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses", ()))
    return {name for name in named if name}


def _wanted(pod: Json) -> set[str]:
    named = (each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims", ()))
    return _generated(pod) | {name for name in named if name}


def _deleting(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]
