"""The time limits that leadership sets for writes, in the controller and in commands that hold its Lease."""

from typing import NoReturn, Protocol

from dra.engine.instants import NEVER, Instant
from dra.kube.lease_rules import Tenure


class Election(Protocol):
    """A candidate in a leader election, see `dra.kube.leader_election.LeaderElector`."""

    @property
    def write_deadline(self) -> float:
        """Return the deadline of all writes begun now."""

    @property
    def previous_writes_until(self) -> float:
        """Return until when late writes of the previous leader may arrive."""

    async def acquire(self) -> Tenure:
        """Wait until this process is the leader."""

    async def renew(self) -> NoReturn:
        """Renew the lease; raise `LeadershipLostError` when that fails."""

    async def release(self) -> None:
        """Release the lease after the last write."""


class Leadership:
    """The time limits of writes. Without leader election, writing is always allowed."""

    def __init__(self, election: Election | None = None) -> None:
        self.election = election

    def write_until(self) -> Instant:
        """Return the deadline of all writes begun now."""
        return NEVER if self.election is None else self.election.write_deadline

    def write_timeout(self, longest: float, *, now: Instant) -> float:
        """Return how long a write that begins now may take: it must end before the lease can expire."""
        return min(longest, self.write_until() - now)

    def previous_writes_until(self) -> Instant:
        """Return until when late writes of another leader may arrive: nothing is deallocated before."""
        return -NEVER if self.election is None else self.election.previous_writes_until
