"""Actions of a claim's plan: a closed union of values.

`dra.engine.claims.patches` turns these values into API writes.
"""

from typing import TypeAlias

from dra.engine.claims.reasons import Reason
from dra.engine.devices.taints import TaintSource
from dra.engine.plan import Plan
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, OwnerReference, Struct, Uid
from dra.model.references import ConsumerReference


class SetReservedFor(Struct, frozen=True):
    """Replace the claim's ``status.reservedFor`` with this list."""

    claim: Key
    entries: tuple[ConsumerReference, ...]


class AddEntries(Struct, frozen=True):
    """Add entries to ``status.reservedFor``, or replace entries of the same uid, whatever else is listed by then."""

    claim: Key
    entries: tuple[ConsumerReference, ...]


class Deallocate(Struct, frozen=True):
    """Clear allocation, ``reservedFor`` and device status of a claim in one write."""

    claim: Key
    confirm: bool = False
    """Whether a live read must first show that no referencing pod is bound or nominated.

    The rules Unstick, Deletion and Doubt ask for it: they deallocate although pods refer to the claim.
    """

    given_up: frozenset[Uid] = frozenset()
    """Pods that no longer count once their nodes do not report in: the user confirms that these pods have ended."""

    nominated: frozenset[tuple[Uid, str]] = frozenset()
    """Pods, and the nodes they are nominated for: nominations older than any cycle that may still bind one of these
    pods."""


class PatchMetadata(Struct, frozen=True):
    """Change annotations of a claim (None removes one) and, if given, its finalizers or owner references."""

    claim: Key
    annotations: tuple[tuple[str, str | None], ...] = ()
    finalizers: tuple[str, ...] | None = None
    owners: tuple[OwnerReference, ...] | None = None


class DeleteClaim(Struct, frozen=True):
    """Delete a claim that was generated for a pod."""

    claim: Key
    uid: Uid


class Ungate(Struct, frozen=True):
    """Remove this project's scheduling gate from a pod, provided the pod still has the resourceVersion decided on."""

    pod: Key
    uid: Uid
    resource_version: str
    other_gates: tuple[str, ...] = ()
    """Gates that stay, in their order."""


class ResyncPod(Struct, frozen=True):
    """Touch a bound pod that was listed late, so that its kubelet retries at once instead of after a minute or more."""

    pod: Key
    uid: Uid


class LookUpPod(Struct, frozen=True):
    """Ask the API server whether the pod of an entry still exists."""

    pod: Key
    uid: Uid


class LookUpWorkload(Struct, frozen=True):
    """Ask the API server for the object that a claim is reserved for."""

    claim: Key
    reference: ConsumerReference


class LookUpNode(Struct, frozen=True):
    """Ask the API server for a node from which consuming pods of the claim have vanished."""

    claim: Key
    node: str


class LookUpPlacements(Struct, frozen=True):
    """Ask whether pods that wait for a claim could run elsewhere if its allocation were revoked."""

    claim: Key
    pods: tuple[Uid, ...]
    """Waiting pods that a scheduler has found unschedulable."""


class EvictPod(Struct, frozen=True):
    """Delete a pod because of a taint on its device, and report the reason once the pod is deleted."""

    pod: Key
    uid: Uid
    source: TaintSource
    reason: Reason


Lookup: TypeAlias = LookUpPod | LookUpWorkload | LookUpNode | LookUpPlacements
ClaimWrite: TypeAlias = SetReservedFor | AddEntries | Deallocate | PatchMetadata
Action: TypeAlias = ClaimWrite | DeleteClaim | Ungate | ResyncPod | Lookup


class ClaimPlan(Plan[Action, Reason], frozen=True):
    """The plan of a decision about a claim: writes of the claim, then requests about its pods."""

    @property
    def claim_writes(self) -> tuple[ClaimWrite, ...]:
        """Return the writes of the claim itself: a chain, each on the resourceVersion of the write before."""
        return tuple(a for a in self.actions if isinstance(a, SetReservedFor | AddEntries | Deallocate | PatchMetadata))

    @property
    def writes_status(self) -> bool:
        """Return whether a write changes the status of the claim; no plan has more than one such write."""
        return any(not isinstance(write, PatchMetadata) for write in self.claim_writes)

    def resyncs_of(self, claim: ResourceClaim | None) -> tuple[ResyncPod, ...]:
        """Return the resyncs of pods that a claim lists: a write of the plan has listed these pods."""
        listed = {entry.uid for entry in claim.entries} if claim is not None else set()
        return tuple(a for a in self.actions if isinstance(a, ResyncPod) and a.uid in listed)
