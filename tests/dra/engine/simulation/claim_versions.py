"""All versions of all claims: what a cache that lags may still show."""

from dra.engine.instants import Instant
from dra.model.claims import ResourceClaim
from tests.dra.engine.simulation.server import Clock, Event, Server


class ClaimVersions:
    """Versions by the name of the claim, whatever its uid; None stands for "not there"."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self._clock = clock
        self._versions: dict[str, list[ResourceClaim | None]] = {}
        self._since: dict[str, list[Instant]] = {}
        server.listeners.append(self._record)

    def names(self) -> tuple[str, ...]:
        """Return the names of all claims that ever were."""
        return tuple(self._versions)

    def newest(self, name: str) -> int:
        """Return the index of the present version."""
        return len(self._versions.get(name, ())) - 1

    def version(self, name: str, index: int) -> ResourceClaim | None:
        """Return a version."""
        versions = self._versions.get(name, ())
        return versions[index] if 0 <= index < len(versions) else None

    def versions(self, name: str) -> tuple[ResourceClaim | None, ...]:
        """Return all versions, the oldest first."""
        return tuple(self._versions.get(name, ()))

    def current_until(self, name: str, index: int) -> Instant:
        """Return until when a version was the present one; for the present one that is now."""
        since = self._since.get(name, ())
        return since[index + 1] if index + 1 < len(since) else self._clock.now

    def _record(self, event: Event) -> None:
        known = event.after if event.after is not None else event.before
        if isinstance(known, ResourceClaim):
            name = known.metadata.name
            after = event.after if isinstance(event.after, ResourceClaim) else None
            self._versions.setdefault(name, []).append(after)
            self._since.setdefault(name, []).append(event.at)
