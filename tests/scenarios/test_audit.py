"""The audit is able to fail: histories in which a device was taken, and some in which none was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.audit import assert_no_device_was_taken
from tests.scenarios.history import Version, WatchHistory

Json = dict[str, Any]


class Etcd:
    """In the place of a namespace: the pods as they were at any revision."""

    def __init__(self, pods: WatchHistory) -> None:
        self._pods = pods.versions

    async def all(self, _resource: object, **query: str) -> list[Json]:
        assert query["resourceVersionMatch"] == "Exact"
        state: dict[str, Json] = {}
        for version in self._pods:
            if int(version.object["metadata"]["resourceVersion"]) <= int(query["resourceVersion"]):
                state[version.object["metadata"]["uid"]] = version.object
        return [*state.values()]


def history(*versions: Json) -> WatchHistory:
    made = WatchHistory(None, None)
    made.versions.extend(Version(received=0.0, change="MODIFIED", object=obj) for obj in versions)
    return made


def claim(revision: int, allocation: str | None) -> Json:
    status = {"allocation": {"by": allocation}} if allocation else {}
    return {"metadata": {"name": "c", "uid": "c", "resourceVersion": str(revision)}, "status": status}


def pod(revision: int, *, node: str = "", phase: str = "Pending") -> Json:
    spec: Json = {"resourceClaims": [{"name": "device", "resourceClaimName": "c"}]}
    metadata = {"name": "p", "uid": "p", "resourceVersion": str(revision)}
    return {"metadata": metadata, "spec": spec | ({"nodeName": node} if node else {}), "status": {"phase": phase}}


RUN = (pod(1), pod(3, node="n"), pod(5, node="n", phase="Succeeded"))


@pytest.mark.parametrize(
    ("claims", "pods", "served"),
    [
        pytest.param([claim(2, "a"), claim(6, None)], RUN, 1, id="given-back-after-the-end"),
        pytest.param([claim(2, "a"), claim(6, "b")], RUN, 1, id="allocated-anew-after-the-end"),
        pytest.param([claim(2, "a"), claim(3, None)], [pod(1)], 0, id="given-back-under-a-pod-that-waits"),
    ],
)
async def test_nothing_was_taken(claims: list[Json], pods: list[Json], served: int) -> None:
    seen = history(*pods)
    assert await assert_no_device_was_taken(Etcd(seen), history(*claims), seen, "c") == served


@pytest.mark.parametrize(
    ("claims", "pods", "said"),
    [
        pytest.param([claim(2, "a"), claim(4, None)], RUN, r"deallocated at 4 under \['p'\]", id="under-a-running-pod"),
        pytest.param([claim(2, "a"), claim(4, "b")], RUN, r"deallocated at 4 under \['p'\]", id="changed-under-it"),
        pytest.param([claim(1, "a"), claim(2, None)], RUN, "bound while its claim had no allocation", id="before-it"),
        pytest.param([claim(4, "a")], RUN, "bound without its claim", id="no-claim-yet"),
    ],
)
async def test_what_was_taken_is_found(claims: list[Json], pods: list[Json], said: str) -> None:
    seen = history(*pods)
    with pytest.raises(AssertionError, match=said):
        await assert_no_device_was_taken(Etcd(seen), history(*claims), seen, "c")


async def test_what_etcd_knows_need_not_be_in_the_watch() -> None:
    """A pod that the watch has missed altogether still counts at the moment of a deallocation."""
    gone = history(claim(2, "a"), claim(4, None))
    with pytest.raises(AssertionError, match="deallocated at 4"):
        await assert_no_device_was_taken(Etcd(history(*RUN)), gone, history(), "c")
