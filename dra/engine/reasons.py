"""Why something is as it is: one value feeds the Event, the condition, the log line, the metric label and the CLI.

Every text names the object first, then what is the case, what stays true, and what to do. A text may name only
commands that exist.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from dra.model.meta import Key, Struct, Uid


class Code(StrEnum):
    """Machine-readable reasons: CamelCase, as Event reasons are. The set is closed; metric labels use it."""

    WORKLOAD_ENTERED = "ReservedForWorkload"
    LIST_WINDOWED = "ListWindowed"
    WORKLOAD_RELEASED = "WorkloadReleased"
    OWNER_RELEASED = "OwnerReleased"
    RELEASE_WAITS = "ReleaseWaitsForPods"
    DEALLOCATED = "Deallocated"
    DEALLOCATION_WAITS = "DeallocationWaits"
    LEADER_CHANGED = "DeallocationWaitsForLeader"
    WORKLOAD_PENDING = "WorkloadNotFound"
    WORKLOAD_UNREADABLE = "WorkloadUnreadable"
    WORKLOAD_UNKNOWN_KIND = "WorkloadKindUnknown"
    IN_DOUBT = "ReservationInDoubt"
    MALFORMED_REFERENCE = "MalformedReference"
    ALLOCATION_STUCK = "AllocationStuck"
    ALLOCATION_LOST = "AllocationLost"
    POD_OFF_ALLOCATION = "PodOffAllocation"
    SANDBOX_NOT_READY = "SandboxNotReady"
    CONSUMER_LIMIT = "ConsumerLimit"
    STOCK_CONTROLLER_ACTIVE = "StockControllerActive"
    DEVICE_HELD_TWICE = "DeviceHeldTwice"
    DELETION_WAITS = "DeletionWaitsForPods"


class Severity(StrEnum):
    """Event types."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Rendering(NamedTuple):
    """How a reason is shown."""

    severity: Severity
    text: str


RENDERINGS: Final[dict[Code, Rendering]] = {
    Code.WORKLOAD_ENTERED: Rendering(
        Severity.NORMAL, "is reserved for {workload}: any pod that references it may use it"
    ),
    Code.LIST_WINDOWED: Rendering(
        Severity.NORMAL,
        "is used by {consuming} pods; those that are starting are listed, a guard entry keeps the reservation",
    ),
    Code.WORKLOAD_RELEASED: Rendering(Severity.NORMAL, "is no longer reserved for {workload}: {cause}"),
    Code.OWNER_RELEASED: Rendering(
        Severity.NORMAL, "was released by the controller of {workload}; it is free when its last pod ends"
    ),
    Code.RELEASE_WAITS: Rendering(
        Severity.NORMAL,
        "{workload} {cause}, but {pods} unfinished pods reference the claim; it stays reserved until they end",
    ),
    Code.DEALLOCATED: Rendering(Severity.NORMAL, "has no consumer left: its devices are free ({cause})"),
    Code.DEALLOCATION_WAITS: Rendering(
        Severity.NORMAL,
        "has no consumer left, but {pods} pods may still be bound; it stays allocated for up to {seconds} s",
    ),
    Code.LEADER_CHANGED: Rendering(
        Severity.NORMAL,
        "is to be given back; it stays allocated for {seconds} s, in which late writes of the former leader may arrive",
    ),
    Code.WORKLOAD_PENDING: Rendering(
        Severity.NORMAL, "{workload} does not exist yet; the claim is reserved for it once it is created"
    ),
    Code.WORKLOAD_UNREADABLE: Rendering(
        Severity.WARNING,
        "entry {workload} cannot be checked: no right to get {kind}; it stays reserved. "
        "Check with: kubectl auth can-i get {kind} -n {namespace}",
    ),
    Code.WORKLOAD_UNKNOWN_KIND: Rendering(
        Severity.WARNING,
        "entry {workload} cannot be checked: the API server has no resource {kind}; it stays reserved. "
        "See: kubectl api-resources",
    ),
    Code.IN_DOUBT: Rendering(
        Severity.NORMAL,
        "nobody can tell yet whether {workload} has the claim; it stays reserved until that is known or it is deleted",
    ),
    Code.MALFORMED_REFERENCE: Rendering(Severity.WARNING, "the workload reference is ignored: {error}"),
    Code.ALLOCATION_STUCK: Rendering(
        Severity.WARNING,
        "no pod can use its allocation ({cause}) and {pods} pods wait; it is taken back within {seconds} s",
    ),
    Code.ALLOCATION_LOST: Rendering(
        Severity.WARNING,
        "is bound to node {node}, but claim {claim} has no allocation any more; its devices may be given away. "
        "Delete the pod so that its owner starts it again: kubectl delete pod -n {namespace} {name}",
    ),
    Code.POD_OFF_ALLOCATION: Rendering(
        Severity.WARNING,
        "is bound to node {node}, which the allocation of claim {claim} excludes; it is not listed and will not start. "
        "Delete the pod so that it is scheduled again: kubectl delete pod -n {namespace} {name}",
    ),
    Code.SANDBOX_NOT_READY: Rendering(
        Severity.WARNING,
        "is bound to node {node} for {seconds} s and has no sandbox; others take its turn in claim {claim}",
    ),
    Code.CONSUMER_LIMIT: Rendering(
        Severity.WARNING,
        "{pods} pods wait: the list holds {listed} of at most 256 consumers; they follow as slots become free",
    ),
    Code.STOCK_CONTROLLER_ACTIVE: Rendering(
        Severity.WARNING,
        "entries that were removed came back: the resourceclaim-controller of kube-controller-manager runs as well. "
        "Start it with --controllers=*,-resourceclaim-controller, or this controller with --mode alongside",
    ),
    Code.DEVICE_HELD_TWICE: Rendering(
        Severity.WARNING, "device {device} is also allocated to claim {other}; free one of them"
    ),
    Code.DELETION_WAITS: Rendering(Severity.NORMAL, "is being deleted and waits for {pods} pods that still use it"),
}


_SHOWN: Final = {"ResourceClaim": "claim"}
"""Kinds whose everyday name is shorter than the API's."""


class Subject(Struct, frozen=True):
    """The object a reason is about."""

    kind: str
    key: Key
    uid: Uid

    def __str__(self) -> str:
        return f"{_SHOWN.get(self.kind, self.kind.lower())} {'/'.join(self.key)}"


class Reason(Struct, frozen=True):
    """One reason with its numbers; equal reasons are one occurrence."""

    code: Code
    subject: Subject
    arguments: tuple[tuple[str, str | int], ...] = ()
    done: bool = False
    """Whether it tells of something done: published only after the write has succeeded."""

    @property
    def severity(self) -> Severity:
        """Whether somebody should look."""
        return RENDERINGS[self.code].severity

    @property
    def note(self) -> str:
        """The text without the object, as Events carry it."""
        return RENDERINGS[self.code].text.format(**dict(self.arguments))

    @property
    def text(self) -> str:
        """The whole sentence: object first."""
        return f"{self.subject}: {self.note}"


def claim_reason(code: Code, *, key: Key, uid: Uid, done: bool = False, **numbers: str | int) -> Reason:
    """Return a reason about a claim."""
    subject = Subject(kind="ResourceClaim", key=key, uid=uid)
    return Reason(code=code, subject=subject, arguments=tuple(numbers.items()), done=done)


def pod_reason(code: Code, *, key: Key, uid: Uid, **numbers: str | int) -> Reason:
    """Return a reason about a pod; its text may use ``namespace`` and ``name``."""
    arguments = {"namespace": key[0], "name": key[1]} | numbers
    return Reason(code=code, subject=Subject(kind="Pod", key=key, uid=uid), arguments=tuple(arguments.items()))
