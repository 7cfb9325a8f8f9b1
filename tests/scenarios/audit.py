"""What must hold of a namespace's whole history: no device was taken from a pod that was using it.

Asked twice, in two ways that share nothing: of the state that etcd had at the very revision of each deallocation, and
of what the watches have shown of each pod.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import allocated, bound, finished, revision
from tests.scenarios.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.scenarios.history import Version, WatchHistory
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

LONGEST_LIST: Final = 256


def uses(pod: Json, claim: str) -> bool:
    """Tell whether the pod references the claim by its name."""
    return any(each.get("resourceClaimName") == claim for each in pod["spec"].get("resourceClaims", ()))


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
    users = [versions for versions in pods.by_object().values() if uses(versions[-1].object, name)]
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


def _assert_kept(pod: list[Version], claim: WatchHistory) -> bool:
    """Assert that the claim was allocated when the pod was bound, and stayed so, unchanged, until it ended."""
    using = [version for version in pod if bound(version.object)]
    if not using:
        return False
    name, first = using[0].object["metadata"]["name"], int(revision(using[0].object))
    ends = (int(revision(v.object)) for v in using if finished(v.object) or v.change == "DELETED")
    last = min(ends, default=sys.maxsize)
    had = _in_force(claim.versions, first)
    assert had is not None, f"pod {name} was bound without its claim"
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
