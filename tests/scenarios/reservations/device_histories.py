"""Devices of a pod that migrates, write by write: used by a pod or held by the Reservation, and given to nobody else.

The judge reads watch histories of claims and pods. Sorted by revision, both histories tell what the cluster was like
after each write.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, entries, finished, revision
from tests.scenarios.history import WatchHistory
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from tests.scenarios.namespaces import Namespace

State = dict[str, Json]
"""Objects by uid, as one write left them."""

Device = tuple[str, str, str]
"""Driver, pool and name: the identity of a device."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """A pod and its replacement, with the claims of both by their names in the pods' spec."""

    old: Json
    before: dict[str, Json]
    new: Json
    after: dict[str, Json]
    reservation: str
    """The uid of the Reservation that held the claims."""


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
        """Assert that each claim of a pod that migrated was used or held at every moment."""
        move = Move(old=old, before=before, new=new, after=after, reservation=reservation_of(job))
        assert_never_without(self.states(), move, holders=self.holders(job))

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


def assert_never_without(states: Sequence[State], move: Move, *, holders: set[str]) -> None:
    """Assert that each claim of a pod that migrated was used or held in every state, and its devices by nobody else.

    What the Reservation held when the old pod began to leave is what the replacement got, without a change in between.
    """
    assert move.before.keys() == move.after.keys()
    old, users = uid_of(move.old), {uid_of(move.old), uid_of(move.new), *holders}
    begins = next(number for number, state in enumerate(states) if leaving(state.get(old)))
    for name, claim in move.after.items():
        held, given = states[begins][uid_of(claim)], states[begins][uid_of(move.before[name])]
        assert move.reservation in listed_uids(held), f"{name}: is not held when the pod begins to leave"
        assert listed_uids(held) <= holders, f"{name}: is held and used when the pod begins to leave"
        assert listed_uids(given) == {old}
        assert pools(held).isdisjoint(pools(given))
        kept = [state[uid_of(claim)]["status"].get("allocation") for state in states[begins:]]
        assert all(each == claim["status"]["allocation"] for each in kept), f"{name}: other devices than held"
    for state in states:
        if old in state and not finished(state[old]):
            assert all(used_by(state[uid_of(each)], {old}) for each in move.before.values()), "taken from a running pod"
        for name, claim in move.after.items():
            found = [state[uid] for uid in (uid_of(move.before[name]), uid_of(claim)) if uid in state]
            assert any(used_by(each, users) for each in found), f"{name}: neither used nor held: {found}"
        given_out = [device for each in state.values() for device in devices(each)]
        assert len(given_out) == len(set(given_out)), f"a device of two claims: {given_out}"


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
