"""What can be wrong, one name for each: told by ``kubectl dra explain`` of one object, by ``audit`` of all."""

from enum import StrEnum

from dra.engine.reasons import Subject
from dra.model.meta import Key, Struct, Uid
from dra.model.workloads import NO_UID


class Trouble(StrEnum):
    """Kinds of problems; the set is closed, and the words for each are the command line's."""

    # Damage: two pods may have one device, or a pod one that is not its own.
    HELD_TWICE = "DeviceHeldTwice"
    ALLOCATION_LOST = "AllocationLost"
    OFF_ALLOCATION = "PodOffAllocation"
    UNGUARDED = "Unguarded"
    # Leaks: devices that nobody uses and nobody gets.
    NOT_FREED = "NotFreed"
    LEFT_OVER = "LeftOver"
    KEPT_BY_OTHERS = "KeptByForeignEntries"
    VANISHED = "PodsVanished"
    NODE_LOST = "NodeLost"
    IN_DOUBT = "ReservationInDoubt"
    RELEASE_WAITS = "ReleaseWaitsForPods"
    DELETION_WAITS = "DeletionWaitsForPods"
    ZOMBIE_CLAIM = "ZombieClaim"
    FINALIZER_LEFT = "FinalizerLeft"
    FINALIZER_FOREIGN = "ForeignFinalizer"
    STALE_ENTRIES = "StaleEntries"
    TOMBSTONES = "Tombstones"
    MARKS_LEFT = "MarksLeft"
    IDLE = "ReservedIdle"
    # What somebody wrote does not mean what it should.
    MALFORMED = "MalformedReference"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    WRONG_UID = "WorkloadGone"
    KIND_UNKNOWN = "WorkloadKindUnknown"
    FORCE_IGNORED = "ForceReleaseIgnored"
    FORCE_BLOCKED = "ForceReleaseBlocked"
    UNKNOWN_ANNOTATION = "UnknownAnnotation"
    # Allocations that are of no use.
    NODE_CORDONED = "AllocationOnCordonedNode"
    STUCK = "AllocationStuck"
    DEVICE_GONE = "DeviceGone"
    DEVICE_TAINTED = "DeviceTainted"
    LIST_FULL = "ConsumerLimit"
    TIMELESS = "NoAllocationTimestamp"
    # Nobody does the work.
    NO_CONTROLLER = "NoController"
    NOT_ENTERED = "NotEntered"
    # Pods that do not get on.
    NODE_NOT_READY = "NodeNotReady"
    TERMINATING = "TerminatingOnLostNode"
    UNLISTED = "NotListed"
    GATED = "GateWithoutController"
    GATED_BY_OTHERS = "GatedByOthers"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_NOT_MADE = "ClaimNotMade"
    TEMPLATE_MISSING = "TemplateMissing"
    CLAIM_DELETING = "ClaimDeleting"
    UNSATISFIABLE = "Unsatisfiable"
    NOT_TRIED = "NotTried"
    REFUSED = "RefusedByScheduler"
    UNSCHEDULABLE = "Unschedulable"
    # Reservations.
    OPEN_TO_ALL = "OwnersOfAnyNamespace"


class Grade(StrEnum):
    """How bad it is."""

    ERROR = "error"  # devices may be used twice
    LEAK = "leak"  # devices are lost to others
    WARNING = "warning"
    INFO = "info"


_ERRORS = frozenset({Trouble.HELD_TWICE, Trouble.ALLOCATION_LOST, Trouble.OFF_ALLOCATION, Trouble.UNGUARDED})
_LEAKS = frozenset(
    {
        Trouble.NOT_FREED,
        Trouble.LEFT_OVER,
        Trouble.KEPT_BY_OTHERS,
        Trouble.NODE_LOST,
        Trouble.IN_DOUBT,
        Trouble.RELEASE_WAITS,
        Trouble.DELETION_WAITS,
        Trouble.ZOMBIE_CLAIM,
        Trouble.FINALIZER_LEFT,
    }
)
_NOTES = frozenset(
    {Trouble.TIMELESS, Trouble.IDLE, Trouble.VANISHED, Trouble.TOMBSTONES, Trouble.GATED_BY_OTHERS, Trouble.OPEN_TO_ALL}
)


class Problem(Struct, frozen=True):
    """One problem of one object, with its numbers and names."""

    trouble: Trouble
    subject: Subject
    facts: tuple[tuple[str, str | int], ...] = ()

    @property
    def grade(self) -> Grade:
        """How bad it is."""
        if self.trouble in _ERRORS:
            return Grade.ERROR
        if self.trouble in _LEAKS:
            return Grade.LEAK
        return Grade.INFO if self.trouble in _NOTES else Grade.WARNING

    @property
    def numbers(self) -> dict[str, str | int]:
        """The facts by name."""
        return dict(self.facts)


def of_claim(trouble: Trouble, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a claim."""
    return _problem(trouble, "ResourceClaim", key, uid, facts)


def of_pod(trouble: Trouble, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a pod."""
    return _problem(trouble, "Pod", key, uid, facts)


def of_reservation(trouble: Trouble, *, name: str, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a Reservation, which has no namespace."""
    return _problem(trouble, "Reservation", ("", name), uid, facts)


def of_controller(trouble: Trouble, *, lease: str, **facts: str | int) -> Problem:
    """Return a problem of the whole cluster; `lease` is NAMESPACE/NAME of our controller's."""
    namespace, _, name = lease.partition("/")
    return _problem(trouble, "Lease", (namespace, name), NO_UID, facts)


def _problem(trouble: Trouble, kind: str, key: Key, uid: Uid, facts: dict[str, str | int]) -> Problem:
    named = {"namespace": key[0], "name": key[1], "uid": uid} | facts
    return Problem(trouble=trouble, subject=Subject(kind=kind, key=key, uid=uid), facts=tuple(named.items()))
