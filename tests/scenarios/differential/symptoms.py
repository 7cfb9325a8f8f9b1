"""What one side looks like when its controller does what `deviations` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import allocated, bound, entries, finished, listed, revision
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from tests.scenarios.differential.settling import Settling

Json = dict[str, Any]

_ENTRY: Final = "resource.kubernetes.io/pod-claim-name"


def lists_finished_pod(side: Settling) -> bool:
    """Tell whether the controller has ever listed a pod that had ended."""
    before: dict[str, set[str]] = {}
    for claim in side.sight.claim_versions:
        uid, uids = claim["metadata"]["uid"], {entry["uid"] for entry in entries(claim)}
        late = (side.sight.ended.get(pod) for pod in uids - before.get(uid, set()))
        if any(end is not None and end < int(revision(claim)) for end in late) and not side.is_ours(claim):
            return True
        before[uid] = uids
    return False


def notes_wrong_entry(side: Settling) -> bool:
    """Tell whether a generated claim has the annotation of another entry than the one it was made for."""
    claims = {claim["metadata"]["name"]: claim["metadata"] for claim in side.sight.of(CLAIMS)}
    return any(
        claims[name].get("annotations", {}).get(_ENTRY, entry) != entry
        for pod in side.sight.of(PODS)
        for entry, name in _generated(pod).items()
        if name in claims and _owned(claims[name], pod)
    )


def names_missing_claim(side: Settling) -> bool:
    """Tell whether a pod's status names a generated claim that is not there."""
    names = {claim["metadata"]["name"] for claim in side.sight.of(CLAIMS)}
    return any(set(_generated(pod).values()) - names for pod in _living(side))


def lists_nobody(side: Settling) -> bool:
    """Tell whether somebody is listed who is over or gone."""
    users = {pod["metadata"]["uid"] for pod in side.sight.of(PODS) if _may_run(pod)}
    over = {uid for uid, obj in side.sight.ever.items() if "containers" in obj["spec"]} - users
    return any(entry["uid"] in over for claim in side.sight.of(CLAIMS) for entry in entries(claim))


def holds_deleted_claim(side: Settling) -> bool:
    """Tell whether a claim that is being deleted lists pods that wait."""
    waiting = {pod["metadata"]["name"] for pod in _living(side) if _may_run(pod) and not bound(pod)}
    return any(_deleting(claim) and listed(claim) & waiting for claim in side.sight.of(CLAIMS))


def bound_pod_misses_claim(side: Settling) -> bool:
    """Tell whether a bound pod wants a claim that is not there."""
    names = {claim["metadata"]["name"] for claim in side.sight.of(CLAIMS)}
    return any(
        len(_wanted(pod) & names) < len({*_wanted(pod), *_unrecorded(pod)}) for pod in _living(side) if _uses(pod)
    )


def keeps_orphan_of_ended_pod(side: Settling) -> bool:
    """Tell whether a pod that has ended owns a claim that its status does not name."""
    return any(
        _owned(claim["metadata"], pod) and claim["metadata"]["name"] not in _wanted(pod)
        for pod in side.sight.of(PODS)
        if finished(pod) or (_deleting(pod) and not bound(pod))
        for claim in side.sight.of(CLAIMS)
    )


def keeps_claim_of_unlisted_user(side: Settling) -> bool:
    """Tell whether a claim is kept allocated for a bound pod that cannot be listed any more."""
    users = [pod for pod in side.sight.of(PODS) if _uses(pod)]
    return any(
        claim["metadata"]["name"] in _wanted(pod)
        and pod["metadata"]["name"] not in listed(claim)
        and (_deleting(pod) or _deleting(claim))
        for claim in side.sight.of(CLAIMS)
        if allocated(claim)
        for pod in users
    )


def freed_under_user(stock: Settling, other: Settling) -> bool:
    """Tell whether stock has freed a claim that a bound pod wants, where the other side lists that pod."""
    held = {claim["metadata"]["name"] for claim in stock.sight.of(CLAIMS) if allocated(claim)}
    users = [pod for pod in other.sight.of(PODS) if _uses(pod)]
    return any(
        claim["metadata"]["name"] in _wanted(pod) - held and pod["metadata"]["name"] in listed(claim)
        for claim in other.sight.of(CLAIMS)
        if allocated(claim) and "generateName" not in claim["metadata"]
        for pod in users
    )


def _living(side: Settling) -> list[Json]:
    return [pod for pod in side.sight.of(PODS) if not _deleting(pod)]


def _may_run(pod: Json) -> bool:
    return _uses(pod) or not (bound(pod) or finished(pod) or _deleting(pod))


def _uses(pod: Json) -> bool:
    return bound(pod) and not finished(pod)


def _generated(pod: Json) -> dict[str, str]:
    named = {each["name"]: each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses", ())}
    return {entry: name for entry, name in named.items() if name}


def _unrecorded(pod: Json) -> set[str]:
    wants = pod["spec"].get("resourceClaims", ())
    return {want["name"] for want in wants if "resourceClaimTemplateName" in want} - _generated(pod).keys()


def _wanted(pod: Json) -> set[str]:
    named = (each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims", ()))
    return {*_generated(pod).values(), *filter(None, named)}


def _owned(claim: Json, pod: Json) -> bool:
    return pod["metadata"]["uid"] in {owner["uid"] for owner in claim.get("ownerReferences", ())}


def _deleting(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]
