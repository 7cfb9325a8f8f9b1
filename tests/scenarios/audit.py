"""What must hold of a namespace's whole history: no device was taken from a pod that was using it.

Asked twice, in two ways that share nothing: of the state that etcd had at the very revision of each deallocation, and
of what the watches have shown of each pod.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import allocated, bound, entries, finished, revision
from tests.scenarios.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.scenarios.history import Version, WatchHistory
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

LONGEST_LIST: Final = 256


def uses(pod: Json, claim: str) -> bool:
    """Tell whether the pod references the claim, by its name or by a template from which it was made."""
    named = [*pod["spec"].get("resourceClaims", ()), *pod["status"].get("resourceClaimStatuses", ())]
    return any(each.get("resourceClaimName") == claim for each in named)


def deallocations(history: WatchHistory) -> list[str]:
    """Return the revisions at which an allocation of the recorded claim ended or became another one."""
    versions = [version.object for version in history.versions if version.change != "DELETED"]
    return [
        revision(after)
        for before, after in pairwise(versions)
        if allocated(before) and _allocation(before) != _allocation(after)
    ]


async def assert_no_device_was_taken(namespace: Namespace, claim: WatchHistory, pods: WatchHistory, name: str) -> int:
    """Assert that no pod lost its allocation of the claim; return how many pods have had it.

    The histories must be complete. To be called within five minutes: the API server compacts etcd.
    """
    for moment in deallocations(claim):
        users = await _consuming(namespace, name, moment)
        assert not users, f"claim {name}: deallocated at {moment} under {users}"
    return assert_pods_kept_their_devices(claim, pods, name)


def assert_pods_kept_their_devices(claim: WatchHistory, pods: WatchHistory, name: str) -> int:
    """Assert the same of what the watches have shown alone, however long ago that was; return the same number."""
    users = [versions for versions in pods.by_object().values() if _was_bound_with(versions, name)]
    served = sum(_assert_kept(versions, claim) for versions in users)
    assert claim.longest_list() <= LONGEST_LIST
    return served


async def _consuming(namespace: Namespace, claim: str, moment: str) -> list[str]:
    """Return the bound, unfinished pods that referenced the claim at a revision, as etcd has it."""
    exactly = {"resourceVersion": moment, "resourceVersionMatch": "Exact"}
    return [
        pod["metadata"]["name"]
        for pod in await namespace.all(PODS, **exactly)
        if uses(pod, claim) and bound(pod) and not finished(pod)
    ]


def _was_bound_with(pod: list[Version], claim: str) -> bool:
    """Tell whether the pod referenced the claim when it was bound.

    Later versions may name another claim: the stock controller makes one more from the template of a pod that has
    ended, and deletes it.
    """
    first = next((version.object for version in pod if bound(version.object)), pod[-1].object)
    return uses(first, claim)


def _assert_kept(pod: list[Version], claim: WatchHistory) -> bool:
    """Assert that the claim was allocated when the pod was bound, and stayed so, unchanged, until it ended."""
    using = [version for version in pod if bound(version.object)]
    if not using:
        return False
    name, first = using[0].object["metadata"]["name"], int(revision(using[0].object))
    ends = (int(revision(v.object)) for v in using if finished(v.object) or v.change == "DELETED")
    last = min(ends, default=sys.maxsize)
    had = _in_force(claim.versions, first)
    seen = [(v.change, revision(v.object)) for v in claim.versions]
    assert had is not None, f"pod {name} was bound without its claim: at {first}, and the claim's versions are {seen}"
    assert allocated(had), f"pod {name} was bound while its claim had no allocation"
    for version in claim.versions:
        if first < int(revision(version.object)) < last:
            assert _allocation(version.object) == _allocation(had), f"the allocation changed under pod {name}"
    return True


def _in_force(versions: Iterable[Version], moment: int) -> Json | None:
    found = None
    for version in versions:
        if int(revision(version.object)) > moment:
            break
        found = None if version.change == "DELETED" else version.object
    return found


def _allocation(claim: Json) -> Json | None:
    found: Json | None = claim.get("status", {}).get("allocation")
    return found


def assert_everybody_stays_listed(claim: WatchHistory, pods: WatchHistory, *, since: str) -> None:
    """Assert that from a version of the claim on each of its versions lists all pods that use it then."""
    spans = []
    for versions in pods.by_object().values():
        using = [int(revision(v.object)) for v in versions if bound(v.object)]
        ends = [int(revision(v.object)) for v in versions if finished(v.object) or v.change == "DELETED"]
        if using:
            spans.append((versions[-1].object["metadata"]["uid"], using[0], min(ends, default=2**63)))
    for version in claim.versions:
        at = int(revision(version.object))
        if at < int(since) or version.change == "DELETED":
            continue
        present = {entry["uid"] for entry in entries(version.object)}
        unlisted = [uid for uid, first, last in spans if first <= at < last and uid not in present]
        assert not unlisted, f"at {at} {len(unlisted)} pods use the claim and are not listed"


def first_with_all(claim: WatchHistory, uids: set[str], *, since: str) -> str:
    """Return the first version of the claim, from one on, that lists them all."""
    later = (v.object for v in claim.versions if int(revision(v.object)) >= int(since))
    version = next((each for each in later if uids <= {entry["uid"] for entry in entries(each)}), None)
    assert version is not None, "no version lists all pods"
    return revision(version)


def assert_no_device_was_doubled(*claims: WatchHistory) -> None:
    """Assert that at no moment two of these claims had the same device."""
    held: dict[str, set[str]] = {}
    versions = [version for claim in claims for version in claim.versions]
    ordered = sorted(versions, key=lambda each: int(revision(each.object)))
    for version in ordered:
        name = version.object["metadata"]["name"]
        held[name] = _devices(version)
        for other, theirs in held.items():
            assert other == name or not held[name] & theirs, "\n".join(
                [f"{name} and {other} have the same device", *_told(ordered, {name, other})]
            )


def _devices(version: Version) -> set[str]:
    allocation = version.object.get("status", {}).get("allocation") if version.change != "DELETED" else None
    results = allocation["devices"]["results"] if allocation else []
    return {f"{each['driver']}/{each['pool']}/{each['device']}" for each in results}


def _told(versions: list[Version], names: set[str]) -> Iterator[str]:
    """Yield a line for each version of these claims: devices, entries, and who has written what when."""
    for version in versions:
        meta, status = version.object["metadata"], version.object.get("status", {})
        if meta["name"] in names:
            entries = [f"{each['resource']}/{each['name']}" for each in status.get("reservedFor", ())]
            writers = [f"{each['manager']} {each.get('time', '')}" for each in meta.get("managedFields", ())]
            devices = sorted(_devices(version))
            yield f"{revision(version.object)} {version.change} {meta['name']} {devices} {entries} {writers}"
