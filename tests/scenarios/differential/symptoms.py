"""What one side looks like when its controller does what `deviations` names."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import allocated, bound, entries, finished, listed, revision
from tests.scenarios.differential.observation import STOCK_EVENTS
from tests.scenarios.differential.things import FINALIZER
from tests.scenarios.resources import CLAIMS, EVENTS, PODS

if TYPE_CHECKING:
    from tests.scenarios.differential.settling import Settling

Json = dict[str, Any]

VANISHED_FOR: Final = 100.0
"""Seconds for which a claim may be kept for a pod that was deleted by force: its grace period of a second, 70 s in
which its node may be silent and still count as Ready, and some on a busy machine."""

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
    claims = _claims(side)
    return any(
        claims[name]["metadata"].get("annotations", {}).get(_ENTRY, entry) != entry
        for pod in side.sight.of(PODS)
        for entry, name in _generated(pod).items()
        if name in claims and _owned(claims[name], pod)
    )


def pods_that_name_missing_claims(side: Settling) -> set[str]:
    """Return the pods whose status names a generated claim that is not there."""
    return {_name(pod) for pod in _living(side) if not _claims(side).keys() >= set(_generated(pod).values())}


def pods_with_unrecorded_claims(side: Settling) -> set[str]:
    """Return the pods that own a claim made for an entry for which their status names none."""
    return {
        _name(pod)
        for pod in _living(side)
        for claim in side.sight.of(CLAIMS)
        if _owned(claim, pod)
        and claim["metadata"].get("annotations", {}).get(_ENTRY) in _templates(pod) - _generated(pod).keys()
    }


def pods_that_name_others_claims(side: Settling) -> set[str]:
    """Return the pods whose status names a claim that was made for somebody else."""
    claims = _claims(side)
    return {
        _name(pod)
        for pod in _living(side)
        for name in _generated(pod).values()
        if name in claims and not _owned(claims[name], pod)
    }


def lists_nobody(side: Settling) -> bool:
    """Tell whether somebody is listed who is over or gone."""
    users = {pod["metadata"]["uid"] for pod in side.sight.of(PODS) if _may_run(pod)}
    over = {uid for uid, obj in side.sight.ever.items() if "containers" in obj["spec"]} - users
    return any(entry["uid"] in over for claim in side.sight.of(CLAIMS) for entry in entries(claim))


def lists_ended_stranger(side: Settling) -> bool:
    """Tell whether a pod is listed that has ended, and never wanted the claim."""
    ended = {pod["metadata"]["uid"]: pod for pod in side.sight.of(PODS) if finished(pod)}
    return any(
        entry["uid"] in ended and _name(claim) not in _wanted(ended[entry["uid"]])
        for claim in side.sight.of(CLAIMS)
        for entry in entries(claim)
    )


def mixed_lists(side: Settling) -> dict[str, set[str]]:
    """Return whom the lists with an entry of another object than a pod name, by claim; the claim itself among them."""
    return {
        _role(claim): {_role(claim), *(entry["name"] for entry in entries(claim))}
        for claim in side.sight.of(CLAIMS)
        if any(entry["resource"] != "pods" or entry.get("apiGroup") for entry in entries(claim))
    }


def holds_deleted_claim(side: Settling) -> bool:
    """Tell whether a claim that is being deleted lists pods that wait."""
    waiting = {pod["metadata"]["name"] for pod in _living(side) if _may_run(pod) and not bound(pod)}
    return any(_deleting(claim) and listed(claim) & waiting for claim in side.sight.of(CLAIMS))


def records(side: Settling) -> dict[str, dict[str, str]]:
    """Return which generated claims the statuses of living pods name."""
    return {_name(pod): _generated(pod) for pod in _living(side)}


def records_of_ended_pods(side: Settling) -> dict[str, dict[str, str]]:
    """Return what the statuses of ended pods name: users' claims by name, generated ones by what they were made for."""
    roles = {_name(obj): _role(obj) for obj in side.sight.ever.values()}
    return {
        _name(pod): {entry: roles.get(name, name) for entry, name in _generated(pod).items()}
        for pod in _living(side)
        if finished(pod)
    }


def bound_pods_that_miss_claims(side: Settling) -> set[str]:
    """Return the bound pods that want a claim that is not there."""
    names = _claims(side).keys()
    return {
        _name(pod)
        for pod in _living(side)
        if _uses(pod) and (_wanted(pod) - names or _templates(pod) - _generated(pod).keys())
    }


def pods_that_wait_for_users(side: Settling) -> set[str]:
    """Return the pods that want a claim that a user must make, or that is somebody else's."""
    claims = _claims(side)
    return pods_that_name_others_claims(side) | {
        _name(pod) for pod in _living(side) if _wanted(pod) - set(_generated(pod).values()) - claims.keys()
    }


def reservations(side: Settling) -> dict[str, set[str]]:
    """Return, by pod, where it is listed: the claims' names, or what they were generated for."""
    found = defaultdict[str, set[str]](set)
    for claim in side.sight.of(CLAIMS):
        for pod in listed(claim):
            found[pod].add(_role(claim))
    return found


def pods_that_ever_ended(side: Settling) -> set[str]:
    """Return the names of pods that have ended, whether or not they are still there."""
    return {_name(side.sight.ever[uid]) for uid in side.sight.ended}


def told(side: Settling) -> set[tuple[str, str]]:
    """Return what events say of pods for which no claim could be made."""
    return {
        (event["involvedObject"]["name"], event["message"])
        for event in side.sight.of(EVENTS)
        if event["reason"] in STOCK_EVENTS
    }


def orphans_of_ended_pods(side: Settling) -> int:
    """Count the claims that pods that have ended own, and do not name."""
    ended = [pod for pod in side.sight.of(PODS) if not _may_run(pod)]
    return sum(
        _owned(claim, pod) and _name(claim) not in _wanted(pod) for pod in ended for claim in side.sight.of(CLAIMS)
    )


def keeps_claim_of_unlisted_user(side: Settling) -> bool:
    """Tell whether a claim is kept allocated for a bound pod that cannot be listed any more."""
    users = [pod for pod in side.sight.of(PODS) if _uses(pod)]
    return any(
        _name(claim) in _wanted(pod) and _name(pod) not in listed(claim) and (_deleting(pod) or _deleting(claim))
        for claim in side.sight.of(CLAIMS)
        if allocated(claim)
        for pod in users
    )


def allocations(side: Settling) -> set[str]:
    """Return the allocated claims of users by name, the generated ones by what they were generated for."""
    return {_role(claim) for claim in side.sight.of(CLAIMS) if allocated(claim)}


def protected_for_nothing(side: Settling) -> set[str]:
    """Return the claims with the finalizer that are not allocated: of users by name, generated ones by their reason."""
    return {
        _role(claim)
        for claim in side.sight.of(CLAIMS)
        if FINALIZER in claim["metadata"].get("finalizers", ()) and not allocated(claim)
    }


def bound_pods(side: Settling) -> set[str]:
    """Return the pods that are bound and have not ended."""
    return {_name(pod) for pod in side.sight.of(PODS) if _uses(pod)}


def kept_for_vanished_pods(side: Settling) -> set[str]:
    """Return the claims that are allocated or list somebody, and that a pod used whose object has just gone by force.

    Each with the vanished pods that it lists.
    """
    since = time.monotonic() - VANISHED_FOR
    vanished = {uid: each.pod for uid, each in side.sight.vanished.items() if each.at > since}
    found = set()
    for claim in side.sight.of(CLAIMS):
        uids = {entry["uid"] for entry in entries(claim)} & vanished.keys()
        wanted = any(_name(claim) in _wanted(pod) for pod in vanished.values())
        if uids or (wanted and (allocated(claim) or entries(claim))):
            found.add(f"{_role(claim)} {sorted(_name(vanished[uid]) for uid in uids)}")
    return found


def entries_of_unseen_pods(side: Settling) -> set[str]:
    """Return the uids of the entries for pods that have never been there."""
    listed_pods = {
        entry["uid"]
        for claim in side.sight.of(CLAIMS)
        for entry in entries(claim)
        if entry["resource"] == "pods" and not entry.get("apiGroup")
    }
    return listed_pods - side.sight.ever.keys()


def _living(side: Settling) -> list[Json]:
    return [pod for pod in side.sight.of(PODS) if not _deleting(pod)]


def _may_run(pod: Json) -> bool:
    return _uses(pod) or not (bound(pod) or finished(pod) or _deleting(pod))


def _uses(pod: Json) -> bool:
    return bound(pod) and not finished(pod)


def _generated(pod: Json) -> dict[str, str]:
    named = {each["name"]: each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses", ())}
    return {entry: name for entry, name in named.items() if name}


def _templates(pod: Json) -> set[str]:
    wants = pod["spec"].get("resourceClaims", ())
    return {want["name"] for want in wants if "resourceClaimTemplateName" in want}


def _wanted(pod: Json) -> set[str]:
    named = (each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims", ()))
    return {*_generated(pod).values(), *filter(None, named)}


def _owned(claim: Json, pod: Json) -> bool:
    return pod["metadata"]["uid"] in {owner["uid"] for owner in claim["metadata"].get("ownerReferences", ())}


def _role(claim: Json) -> str:
    meta = claim["metadata"]
    if "generateName" not in meta:
        return str(meta["name"])
    return f"{meta['generateName']} {meta.get('annotations', {}).get(_ENTRY)}"


def _claims(side: Settling) -> dict[str, Json]:
    return {_name(claim): claim for claim in side.sight.of(CLAIMS)}


def _name(obj: Json) -> str:
    return str(obj["metadata"]["name"])


def _deleting(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]
