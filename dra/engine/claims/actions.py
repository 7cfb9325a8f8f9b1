"""What a plan may consist of: a closed union of values. dra.engine.claims.patches turns them into API writes."""

from typing import TypeAlias

from dra.engine.claims.reasons import Reason
from dra.engine.devices.taints import TaintSource
from dra.engine.instants import NEVER, Instant
from dra.model.meta import Key, OwnerReference, Struct, Uid
from dra.model.references import ConsumerReference


class SetReservedFor(Struct, frozen=True):
    """Make ``status.reservedFor`` of the claim this list."""

    claim: Key
    entries: tuple[ConsumerReference, ...]


class AddEntries(Struct, frozen=True):
    """Put entries into ``status.reservedFor``, in place of those with their uids, whatever else is listed by then."""

    claim: Key
    entries: tuple[ConsumerReference, ...]


class Deallocate(Struct, frozen=True):
    """Clear allocation, list and device status in one write."""

    claim: Key
    confirm: bool = False
    """Whether a live read must first show that no referencing pod is bound or nominated (rules 9, 10 and 12)."""

    given_up: frozenset[Uid] = frozenset()
    """Pods for which it is enough that their nodes do not report in: a person vouches that they are no more."""

    nominated: frozenset[tuple[Uid, str]] = frozenset()
    """Pods and the nodes that they were nominated for since long before any cycle that may still bind one began."""


class PatchMetadata(Struct, frozen=True):
    """Change annotations (None removes one) and, if given, the finalizers or owners of the claim."""

    claim: Key
    annotations: tuple[tuple[str, str | None], ...] = ()
    finalizers: tuple[str, ...] | None = None
    owners: tuple[OwnerReference, ...] | None = None


class DeleteClaim(Struct, frozen=True):
    """Delete a claim that was made for a pod."""

    claim: Key
    uid: Uid


class Ungate(Struct, frozen=True):
    """Take our gate off a pod; it must still be the version that was decided on."""

    pod: Key
    uid: Uid
    resource_version: str


class ResyncPod(Struct, frozen=True):
    """Touch a bound pod that was listed late: its kubelet looks again at once instead of after a minute or more."""

    pod: Key
    uid: Uid


class LookUpPod(Struct, frozen=True):
    """Ask the API server whether the pod of an entry is still there."""

    pod: Key
    uid: Uid


class LookUpWorkload(Struct, frozen=True):
    """Ask the API server for the object a claim is reserved for."""

    claim: Key
    reference: ConsumerReference


class LookUpNode(Struct, frozen=True):
    """Ask the API server for a node that consuming pods of the claim have vanished from."""

    claim: Key
    node: str


class LookUpPlacements(Struct, frozen=True):
    """Ask whether pods that wait for a claim could run elsewhere if its allocation were taken back (rule 9)."""

    claim: Key
    pods: tuple[Uid, ...]
    """The pods that a scheduler has found unschedulable."""


class EvictPod(Struct, frozen=True):
    """Delete a pod because of a taint on its device, and tell why once that is done."""

    pod: Key
    uid: Uid
    source: TaintSource
    reason: Reason


Lookup: TypeAlias = LookUpPod | LookUpWorkload | LookUpNode | LookUpPlacements
Action: TypeAlias = (
    SetReservedFor | AddEntries | Deallocate | PatchMetadata | DeleteClaim | Ungate | ResyncPod | Lookup | EvictPod
)
ClaimWrite: TypeAlias = SetReservedFor | AddEntries | Deallocate | PatchMetadata


class ClaimPlan(Struct, frozen=True):
    """What to do now, why things are as they are, and when to look again without an event."""

    actions: tuple[Action, ...] = ()
    reasons: tuple[Reason, ...] = ()
    wake_at: Instant = NEVER

    @property
    def claim_writes(self) -> tuple[ClaimWrite, ...]:
        """The writes on the claim itself: a chain, each on the resourceVersion of the one before."""
        return tuple(a for a in self.actions if isinstance(a, SetReservedFor | AddEntries | Deallocate | PatchMetadata))
