"""Where a script ends because stock does what nobody should take over from it, each with its reason.

Such scripts are left out and counted, by kind. Whatever is not named here must be equal.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import entries, revision
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


PATIENCE: Final = 30.0
"""Seconds after which stock would have settled, if it did."""

SURE: Final = 5.0
"""Seconds at rest after which stock is not about to do something: its own retries double from 5 ms on."""


def found(stock: Settling) -> Deviation | None:
    """Return what stock is seen to do in this round, whether or not both sides look alike."""
    if stock.restless or (stock.age > PATIENCE and not stock.at_rest):
        return Deviation.NEVER_SETTLES
    return Deviation.LISTS_FINISHED_POD if _lists_finished_pod(stock) else None


def explains_difference(stock: Settling) -> Deviation | None:
    """Return what stock does, where that is known only from what it leaves undone."""
    if stock.resting > SURE and any(map(_claim_is_missing, _pods_and_claims(stock))):
        return Deviation.REMEMBERS_DELETED_CLAIM
    return None


def _lists_finished_pod(stock: Settling) -> bool:
    listed: dict[str, set[str]] = {}
    for claim in stock.sight.claim_versions:
        uid, uids = claim["metadata"]["uid"], {entry["uid"] for entry in entries(claim)}
        late = (stock.sight.ended.get(pod) for pod in uids - listed.get(uid, set()))
        if any(end is not None and end < int(revision(claim)) for end in late) and not stock.is_ours(claim):
            return True
        listed[uid] = uids
    return False


def _pods_and_claims(stock: Settling) -> list[tuple[Json, set[str]]]:
    names = {claim["metadata"]["name"] for claim in stock.sight.of(CLAIMS)}
    return [(pod, names) for pod in stock.sight.of(PODS)]


def _claim_is_missing(pod_and_claims: tuple[Json, set[str]]) -> bool:
    pod, claims = pod_and_claims
    named = (each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses", ()))
    return "deletionTimestamp" not in pod["metadata"] and any(name and name not in claims for name in named)
