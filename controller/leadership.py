"""Leadership as the writer checks it before each write: whether writing is allowed, and until when."""

from dra.engine.instants import NEVER, Instant
from dra.kube.leader_election import LeaderElector


class Leadership:
    """The time limits of writes. Without leader election, writing is always allowed."""

    def __init__(self, election: LeaderElector | None = None) -> None:
        self._election = election

    def write_until(self) -> Instant:
        """Return the deadline of all writes begun now."""
        return NEVER if self._election is None else self._election.write_deadline

    def within(self, longest: float, *, now: Instant) -> float:
        """Return how long a write that begins now may take: it must end before the lease can expire."""
        return min(longest, self.write_until() - now)

    def quiet_until(self) -> Instant:
        """Return until when late writes of another leader may arrive: nothing is deallocated before."""
        return -NEVER if self._election is None else self._election.quiet_until
