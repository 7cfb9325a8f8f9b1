"""What one claim should be: the value that the rules fold into, one after the other."""

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
    """The wanted state of one claim, its gates, and why."""

    workload: ConsumerReference | None = None
    kept: tuple[ConsumerReference, ...] = ()
    """Entries that stay as they are: foreign ones, pods in doubt, tombstones."""

    pods: tuple[Consumer, ...] = ()
    guard: bool = False
    allocated: bool = True
    deleted: bool = False
    """Whether the claim was made for a pod that needs it no more."""

    confirm: bool = False
    """Whether a deallocation needs a live read first."""

    over: str = ""
    """Why the workload will use the claim no more; empty while it may."""

    given_up: frozenset[Uid] = frozenset()
    """Bound pods that do not count for that read: a person vouches that they are no more."""

    nominated: frozenset[tuple[Uid, str]] = frozenset()
    """Pods with nominations, and their nodes, that do not count for that read either: they are older than any cycle."""

    released: bool = False
    """Whether the workload's owner removed the entry of this allocation."""

    held: bool = False
    """Whether something keeps the allocation that cannot be listed."""

    unsure: bool = False
    """Whether nobody can tell if the workload has the claim: then a guard takes the place of the last entry."""

    revoking: bool = False
    """Whether the allocation is being taken back: nobody new may come to rely on it."""

    urgent: bool = False
    """Whether the list must not wait for a batch."""

    marks: Mapping[str, str | None] = _NO_ANNOTATIONS
    finalizers: tuple[str, ...] | None = None
    owners: tuple[OwnerReference, ...] | None = None
    """Whose the claim is to be; None: as it is."""

    ungate: tuple[Consumer, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    reasons: tuple[Reason, ...] = ()
    wake_at: Instant = NEVER

    @property
    def has_room(self) -> bool:
        """Whether an entry for many can still be added to what must stay in the list."""
        return len(self.kept) + (self.workload is not None) < RESERVED_FOR_MAX_SIZE

    def but(self, **changes: object) -> Self:
        """Return a copy with the given fields changed."""
        return msgspec.structs.replace(self, **changes)

    def because(self, *reasons: Reason) -> Self:
        """Return a copy with more reasons."""
        return self.but(reasons=self.reasons + reasons)

    def look_at(self, when: Instant) -> Self:
        """Return a copy that looks again at ``when`` at the latest."""
        return self.but(wake_at=min(self.wake_at, when))

    def ask(self, *lookups: Lookup) -> Self:
        """Return a copy with more questions to the API server."""
        return self.but(lookups=self.lookups + lookups)
