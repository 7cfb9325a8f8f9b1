"""Devices of a pod that migrates, write by write: used by a pod or held by the Reservation, and given to nobody else.

The judge reads watch histories of claims and pods. Sorted by revision, both histories tell what the cluster was like
after each write.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Self

from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, entries, finished, revision
from tests.scenarios.history import WatchHistory
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from tests.scenarios.namespaces import Namespace

State = dict[str, Json]
"""Objects by uid, as one write left them."""

Device = tuple[str, str, str]
"""Driver, pool and name: the identity of a device."""


class DeviceHistory:
    """Records claims and pods of a namespace while the context lasts; judges one migration afterwards."""

    def __init__(self, namespace: Namespace) -> None:
        self._histories: Final = [
            WatchHistory(namespace.api, each, namespace=namespace.name) for each in (CLAIMS, PODS)
        ]
        self._stack: Final = AsyncExitStack()
        self._present = 0

    async def __aenter__(self) -> Self:
        for each in self._histories:
            await self._stack.enter_async_context(each)
        self._present = sum(len(each.versions) for each in self._histories)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    def states(self) -> list[State]:
        """Return the state when the recording began, and the state after each write since."""
        return [*self._replayed()][self._present - 1 :]

    def assert_never_without(
        self, *, old: Json, before: dict[str, Json], new: Json, after: dict[str, Json], job: Json
    ) -> None:
        """Assert that each claim of a pod that migrated was used or held at every moment.

        `before` and `after`: claims of the old pod and of its replacement, by their names in the pods' spec. What the
        Reservation of the job held when the old pod began to leave is what the replacement has got.
        """
        assert before.keys() == after.keys()
        told = self.states()
        holders, reservation = self.holders(job), reservation_of(job)
        evicted = next(state for state in told if leaving(state.get(uid_of(old))))
        for name, claim in after.items():
            held, given = evicted[uid_of(claim)], evicted[uid_of(before[name])]
            assert held["status"]["allocation"] == claim["status"]["allocation"]
            assert reservation in listed_uids(held)
            assert listed_uids(held) <= holders
            assert pools(held).isdisjoint(pools(given))
            assert listed_uids(given) == {uid_of(old)}
        users = {uid_of(old), uid_of(new), *holders}
        for state in told:
            if uid_of(old) in state and not finished(state[uid_of(old)]):
                assert all(used_by(state[uid_of(each)], {uid_of(old)}) for each in before.values())
            for name, claim in after.items():
                found = [state[uid] for uid in (uid_of(before[name]), uid_of(claim)) if uid in state]
                assert any(used_by(each, users) for each in found), f"{name}: neither used nor held: {found}"
            given_out = [device for each in state.values() for device in devices(each)]
            assert len(given_out) == len(set(given_out)), f"a device of two claims: {given_out}"

    def holders(self, job: Json) -> set[str]:
        """Return the uids by which the Reservation of a job stands in a claim: its own, and its placeholder's."""
        uid = reservation_of(job)
        return {uid, *self._histories[1].only(f"reservation-{uid}").by_object()}

    def _replayed(self) -> Iterator[State]:
        versions = [version for each in self._histories for version in each.versions]
        state: State = {}
        for version in sorted(versions, key=lambda each: int(revision(each.object))):
            if version.change == "DELETED":
                state.pop(uid_of(version.object), None)
            else:
                state[uid_of(version.object)] = version.object
            yield dict(state)


async def claims_of(namespace: Namespace, pod: Json) -> dict[str, Json]:
    """Return the claims of a pod, by their names in its spec."""
    return {
        each["name"]: await namespace.get(CLAIMS, each["resourceClaimName"])
        for each in pod["status"]["resourceClaimStatuses"]
    }


def reservation_of(job: Json) -> str:
    """Return the uid of a job's Reservation."""
    return str(job["spec"]["reservationOptions"]["reservationRef"]["uid"])


def leaving(pod: Json | None) -> bool:
    return pod is not None and "deletionTimestamp" in pod["metadata"]


def used_by(claim: Json, users: set[str]) -> bool:
    """Tell whether a claim has devices that a pod uses, or that a Reservation holds."""
    return allocated(claim) and not users.isdisjoint(listed_uids(claim))


def listed_uids(claim: Json) -> set[str]:
    """Return the uids in the list of a claim."""
    return {str(each["uid"]) for each in entries(claim)}


def uid_of(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def pools(claim: Json) -> set[str]:
    return {pool for _, pool, _ in devices(claim)}


def devices(claim: Json) -> list[Device]:
    """Return the devices of a claim; none before it is allocated, and none of a pod."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    return [(each["driver"], each["pool"], each["device"]) for each in results]
