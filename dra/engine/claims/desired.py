"""The desired state of one claim: the value that the rules fold into, one after the other."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

import msgspec

from dra.engine.claims.actions import Lookup
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.reasons import Reason
from dra.engine.instants import NEVER, Instant
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.meta import OwnerReference, Struct, Uid
from dra.model.references import ConsumerReference

_NO_ANNOTATIONS: Final[Mapping[str, str | None]] = MappingProxyType({})


class Desired(Struct, frozen=True):
    """The desired state of one claim and of its pods' gates, with the reasons."""

    workload: ConsumerReference | None = None
    kept_entries: tuple[ConsumerReference, ...] = ()
    """Entries that stay as they are: foreign entries, pods in doubt, tombstones."""

    pods: tuple[Consumer, ...] = ()
    guard: bool = False
    allocated: bool = True
    deleted: bool = False
    """Whether the claim was generated for a pod that no longer needs it."""

    confirm: bool = False
    """Whether a deallocation requires a live read first."""

    workload_over: str = ""
    """Why the workload does not use the claim ("finished", "was deleted", "is suspended"); empty while it may."""

    suspended: bool = False
    """Whether the workload is only suspended: the resumed workload has the same uid, and is entered again."""

    given_up: frozenset[Uid] = frozenset()
    """Bound pods that the live read ignores: the user confirms that these pods have ended."""

    nominated: frozenset[tuple[Uid, str]] = frozenset()
    """Nominated pods, and their nodes, that the live read ignores as well: the nominations are older than any running
    cycle."""

    released: bool = False
    """Whether the workload's owner removed the entry of this allocation."""

    kept_unlisted: bool = False
    """Whether the allocation is kept for a cause that no entry can represent."""

    release_uncertain: bool = False
    """Whether it is unknown if the workload still has the claim: a guard then replaces the last entry."""

    revoking: bool = False
    """Whether the allocation is being revoked: no further pod may come to rely on it."""

    urgent: bool = False
    """Whether the list is written at once instead of in a batch."""

    metadata_first: bool = False
    """Whether annotations are written before the list: an annotation must not outlive the entry that it records."""

    annotations: Mapping[str, str | None] = _NO_ANNOTATIONS
    finalizers: tuple[str, ...] | None = None
    owners: tuple[OwnerReference, ...] | None = None
    """Owner references to set; None leaves them unchanged."""

    ungate: tuple[Consumer, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    reasons: tuple[Reason, ...] = ()
    wake_at: Instant = NEVER

    @property
    def has_room(self) -> bool:
        """Return whether one more entry for many pods fits beside the entries that must stay in the list."""
        return len(self.kept_entries) + (self.workload is not None) < RESERVED_FOR_MAX_SIZE

    def replace(self, **changes: object) -> Self:
        """Return a copy with the given fields changed."""
        return msgspec.structs.replace(self, **changes)

    def with_reasons(self, *reasons: Reason) -> Self:
        """Return a copy with further reasons."""
        return self.replace(reasons=self.reasons + reasons)

    def wake_by(self, when: Instant) -> Self:
        """Return a copy that is decided again at ``when`` at the latest."""
        return self.replace(wake_at=min(self.wake_at, when))

    def with_lookups(self, *lookups: Lookup) -> Self:
        """Return a copy with further lookups at the API server."""
        return self.replace(lookups=self.lookups + lookups)
