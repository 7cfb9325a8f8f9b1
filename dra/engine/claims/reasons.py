"""Reasons: one value feeds the Event, the condition, the log line, the metric label and the CLI.

Every text names the object first, then what is the case, what stays true, and what to do. A text may name only commands
that exist.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from dra.engine.messages.remedies import without_commands
from dra.engine.messages.texts import singularize
from dra.model.meta import Key, Struct, Uid


class Code(StrEnum):
    """Machine-readable reasons in CamelCase, as Event reasons are. The set is closed; metric labels use it."""

    WORKLOAD_ENTERED = "ReservedForWorkload"
    LIST_WINDOWED = "ListWindowed"
    WORKLOAD_RELEASED = "WorkloadReleased"
    OWNER_RELEASED = "OwnerReleased"
    RELEASE_WAITS = "ReleaseWaitsForPods"
    DEALLOCATED = "Deallocated"
    DEALLOCATION_WAITS = "DeallocationWaits"
    LEADER_CHANGED = "DeallocationWaitsForLeader"
    WORKLOAD_PENDING = "WorkloadNotFound"
    WORKLOAD_GONE = "WorkloadGone"
    WORKLOAD_UNREADABLE = "WorkloadUnreadable"
    WORKLOAD_UNKNOWN_KIND = "WorkloadKindUnknown"
    WORKLOAD_KINDS_EXCEEDED = "WorkloadKindsExceeded"
    RULE_FAILED = "ReleaseRuleFailed"
    IN_DOUBT = "ReservationInDoubt"
    MALFORMED_REFERENCE = "MalformedReference"
    ALLOCATION_STUCK = "AllocationStuck"
    ALLOCATION_UNUSABLE = "AllocationUnusable"
    ALLOCATION_LOST = "AllocationLost"
    POD_OFF_ALLOCATION = "PodOffAllocation"
    SANDBOX_NOT_READY = "SandboxNotReady"
    CONSUMER_LIMIT = "ConsumerLimit"
    WAITS_FOR_SLOT = "WaitsForSlot"
    LIST_TAKEN = "ListTakenByOthers"
    STOCK_CONTROLLER_ACTIVE = "StockControllerActive"
    DEVICE_HELD_TWICE = "DeviceHeldTwice"
    DELETION_WAITS = "DeletionWaitsForPods"
    EVICTED = "DeviceTaintManagerEviction"  # upstream's reason for the same case: a search finds both
    GENERATION_FAILED = "FailedResourceClaimCreation"
    WAITS_FOR_GROUP = "WaitsForPodGroup"
    KEPT_BY_OTHERS = "KeptByForeignEntries"
    NODE_LOST = "NodeLost"
    PODS_VANISHED = "PodsVanished"
    GUARD_FOUND = "GuardFound"
    FORCE_RELEASED = "ForceReleased"
    FORCE_RELEASE_IGNORED = "ForceReleaseIgnored"
    FORCE_RELEASE_BLOCKED = "ForceReleaseBlocked"
    FORCE_RELEASE_WAITS = "ForceReleaseWaits"
    HELD = "HeldForReservation"
    HOLD_ENDED = "ReservationEnded"
    HOLD_LOST = "HoldLost"
    HANDED_OVER = "HandedOver"
    WAITS_FOR_HELD = "WaitsForHeldClaim"


class EventType(StrEnum):
    """Event types of the core/v1 API."""

    NORMAL = "Normal"
    WARNING = "Warning"


class ReasonText(NamedTuple):
    """The event type and the text of a reason."""

    severity: EventType
    text: str


REASON_TEXTS: Final[dict[Code, ReasonText]] = {
    Code.WORKLOAD_ENTERED: ReasonText(
        EventType.NORMAL, "is reserved for {workload}: any pod that references it may use it"
    ),
    Code.LIST_WINDOWED: ReasonText(
        EventType.NORMAL,
        "is used by {consuming} pods; those that are starting are listed, a guard entry keeps the reservation",
    ),
    Code.WORKLOAD_RELEASED: ReasonText(EventType.NORMAL, "is no longer reserved for {workload}: {cause}"),
    Code.OWNER_RELEASED: ReasonText(
        EventType.NORMAL, "was released by the controller of {workload}; it is free when its last pod ends"
    ),
    Code.RELEASE_WAITS: ReasonText(
        EventType.NORMAL,
        "{workload} {cause}, but {pods} unfinished pods reference the claim; it stays reserved until they end",
    ),
    Code.DEALLOCATED: ReasonText(EventType.NORMAL, "has no consumer left: its devices are free ({cause})"),
    Code.DEALLOCATION_WAITS: ReasonText(
        EventType.NORMAL,
        "has no consumer left, but pods may still be bound (known: {pods}); it stays allocated for up to {seconds} s",
    ),
    Code.LEADER_CHANGED: ReasonText(
        EventType.NORMAL,
        "is to be given back; it stays allocated for {seconds} s, in which late writes of the former leader may arrive",
    ),
    Code.WORKLOAD_PENDING: ReasonText(
        EventType.NORMAL, "{workload} does not exist yet; the claim is reserved for it once it is created"
    ),
    Code.WORKLOAD_GONE: ReasonText(
        EventType.NORMAL,
        "{workload} with uid {expected} is gone, so nothing is reserved for it; pods use the claim as if it named "
        "nobody. If another one is meant, correct annotation reserve.dra/reserved-for-uid",
    ),
    Code.WORKLOAD_UNREADABLE: ReasonText(
        EventType.WARNING,
        "entry {workload} cannot be checked: no right to get, list and watch {kind}; it stays reserved. "
        "Grant it as deploy/kustomize/base/workload-rights.yaml does for others",
    ),
    Code.WORKLOAD_UNKNOWN_KIND: ReasonText(
        EventType.WARNING,
        "entry {workload} cannot be checked: the API server has no resource {kind}; it stays reserved. "
        "See: kubectl api-resources",
    ),
    Code.WORKLOAD_KINDS_EXCEEDED: ReasonText(
        EventType.WARNING,
        "entry {workload} cannot be checked: claims of namespace {namespace} name more than {limit} kinds of "
        "workloads, and {kind} is not among those that are watched; it stays reserved. Delete claims that name kinds "
        "which nobody needs, or ask the administrator for a release rule for {kind}",
    ),
    Code.RULE_FAILED: ReasonText(
        EventType.WARNING,
        "the release rule gives no answer for {workload}: {error}; the claim stays reserved until {workload} is "
        "deleted, or its controller releases the claim",
    ),
    Code.IN_DOUBT: ReasonText(
        EventType.NORMAL,
        "nobody can tell yet whether {workload} has the claim; it stays reserved until that is known or it is deleted. "
        "Whoever is certain that nobody uses its devices can release it: kubectl dra release --help",
    ),
    Code.MALFORMED_REFERENCE: ReasonText(EventType.WARNING, "the workload reference is ignored: {error}"),
    Code.ALLOCATION_STUCK: ReasonText(
        EventType.WARNING,
        "no pod can use its allocation ({cause}) and {pods} pods wait; it is taken back within {seconds} s",
    ),
    Code.ALLOCATION_UNUSABLE: ReasonText(
        EventType.WARNING,
        "{pods} pods wait and no node of its allocation takes one; it stays allocated: {why}",
    ),
    Code.ALLOCATION_LOST: ReasonText(
        EventType.WARNING,
        "is bound to node {node}, but claim {claim} has no allocation any more; its devices may be given away. "
        "Delete the pod when its work may be interrupted: only its controller, if it has one, makes another one",
    ),
    Code.POD_OFF_ALLOCATION: ReasonText(
        EventType.WARNING,
        "is bound to node {node}, which the allocation of claim {claim} excludes; it is not listed and will not start. "
        "Delete the pod: only its controller, if it has one, makes another one. "
        "See: kubectl dra explain pod {name} -n {namespace}",
    ),
    Code.SANDBOX_NOT_READY: ReasonText(
        EventType.WARNING,
        "is bound to node {node} for {seconds} s and has no sandbox; others take its turn in claim {claim}",
    ),
    Code.CONSUMER_LIMIT: ReasonText(
        EventType.WARNING,
        "{pods} pods wait: {listed} of 256 entries are taken, {finished} of them by pods that have finished; beside "
        "the stock resourceclaim-controller a pod keeps its entry until it is deleted. "
        "See: kubectl get pods -n {namespace} --field-selector status.phase=Succeeded",
    ),
    Code.WAITS_FOR_SLOT: ReasonText(
        EventType.NORMAL,
        "waits until claim {claim} has a slot: 256 entries are all that it can have. "
        "See: kubectl describe resourceclaim -n {namespace} {claim}",
    ),
    Code.LIST_TAKEN: ReasonText(
        EventType.WARNING,
        "{pods} pods wait: {taken} of 256 entries of its list were made by others, who alone may remove these entries: "
        "{entries}",
    ),
    Code.STOCK_CONTROLLER_ACTIVE: ReasonText(
        EventType.WARNING,
        "entries that were removed came back: the resourceclaim-controller of kube-controller-manager runs as well. "
        "Add -resourceclaim-controller to its --controllers, or start this controller with --mode alongside",
    ),
    Code.DEVICE_HELD_TWICE: ReasonText(
        EventType.WARNING,
        "device {device} is also allocated to claim {other}; decide which claim keeps the device, end the pods of the "
        "other claim, then delete that claim. See: kubectl dra explain claim {claim} -n {namespace}",
    ),
    Code.DELETION_WAITS: ReasonText(EventType.NORMAL, "is being deleted and waits for {pods} pods that still use it"),
    Code.EVICTED: ReasonText(
        EventType.NORMAL,
        "is deleted: device {device} of claim {claim} has the taint {taint} by {origin}, which was tolerated "
        "for {seconds} s",
    ),
    Code.GENERATION_FAILED: ReasonText(EventType.WARNING, "{kind} {entry}: {error}"),
    Code.WAITS_FOR_GROUP: ReasonText(
        EventType.WARNING,
        "waits for its claims: PodGroup {group} may ask for the same claims and cannot be read: {error}",
    ),
    Code.KEPT_BY_OTHERS: ReasonText(
        EventType.NORMAL,
        "stays allocated for {entries}, listed by other controllers; nobody else uses it. Whoever is certain that "
        "those controllers are gone for good can release it: kubectl dra release --help",
    ),
    Code.NODE_LOST: ReasonText(
        EventType.WARNING,
        "stays reserved: pods that vanished from node {node} may still run there, since it did not report in; until "
        "the node is gone, rebooted, tainted out-of-service or ready for {seconds} s. If its machine is certainly off, "
        "whoever runs the cluster can say so with the taint node.kubernetes.io/out-of-service, which ends all its pods",
    ),
    Code.PODS_VANISHED: ReasonText(
        EventType.NORMAL,
        "stays reserved: {pods} pods vanished before their kubelets told that the containers had ended; "
        "their nodes are asked after the grace period, within {seconds} s",
    ),
    Code.GUARD_FOUND: ReasonText(
        EventType.NORMAL,
        "stays reserved: the guard in its list was there when the controller was started, and may stand for pods that "
        "were deleted by force before; their containers have ended within {seconds} s",
    ),
    Code.FORCE_RELEASED: ReasonText(
        EventType.WARNING,
        "was released by force, as annotation reserve.dra/force-release asked; overridden: {overridden}",
    ),
    Code.FORCE_RELEASE_IGNORED: ReasonText(
        EventType.WARNING,
        "annotation reserve.dra/force-release is not the uid of this claim, which is {uid}; nothing is done",
    ),
    Code.FORCE_RELEASE_BLOCKED: ReasonText(
        EventType.WARNING,
        "is not released by force: {pods} pods use it on nodes that are Ready ({names}); it stays reserved until "
        "they end. See: kubectl get pods -n {namespace} -o wide",
    ),
    Code.FORCE_RELEASE_WAITS: ReasonText(
        EventType.NORMAL,
        "is released by force as soon as no pod can be bound any more (known: {pods}), within {seconds} s",
    ),
    Code.HELD: ReasonText(
        EventType.NORMAL, "is held for reservation {reservation}: its devices stay allocated for the owners to come"
    ),
    Code.HOLD_ENDED: ReasonText(
        EventType.NORMAL,
        "is no longer held for reservation {reservation}, which is over; its devices are free when its last pod ends",
    ),
    Code.HOLD_LOST: ReasonText(
        EventType.WARNING,
        "has no devices any more, though reservation {reservation} is Available: nothing is held for its owners. "
        "Its owners keep what they run on; to hold devices again, delete the reservation and create it anew. "
        "See: kubectl dra why reservation/{reservation}",
    ),
    Code.HANDED_OVER: ReasonText(
        EventType.NORMAL, "is given to pod {pod}, an owner of reservation {reservation}, with the devices that it has"
    ),
    Code.WAITS_FOR_HELD: ReasonText(
        EventType.NORMAL,
        "waits for claim {claim}, held for it by reservation {reservation}, until {former} has ended. "
        "See: kubectl describe resourceclaim -n {namespace} {claim}",
    ),
}


LISTED_NAMES: Final = 5
"""Number of names that a text lists; further names are counted."""

LONGEST_ARGUMENT: Final = 300
"""Maximum number of characters of one argument in a text."""

_SHORT_KINDS: Final = {"ResourceClaim": "claim"}
"""Kinds with a common name that is shorter than the API's."""


class Subject(Struct, frozen=True):
    """The object that a reason is about."""

    kind: str
    key: Key
    uid: Uid

    def __str__(self) -> str:
        return f"{_SHORT_KINDS.get(self.kind, self.kind.lower())} {'/'.join(filter(None, self.key))}"


class Reason(Struct, frozen=True):
    """A reason with its numbers; equal reasons are one occurrence."""

    code: Code
    subject: Subject
    arguments: tuple[tuple[str, str | int], ...] = ()
    done: bool = False
    """Whether the reason reports an effect: it is published only after the write has succeeded."""

    @property
    def severity(self) -> EventType:
        """Return the event type; a warning needs the user's attention."""
        return REASON_TEXTS[self.code].severity

    @property
    def note(self) -> str:
        """Return the text without the object, as Events carry it."""
        return singularize(
            REASON_TEXTS[self.code].text.format(**{name: _printable(value) for name, value in self.arguments})
        )

    @property
    def text(self) -> str:
        """Return the whole sentence with the object first."""
        return f"{self.subject}: {self.note}"


def _printable(value: str | int) -> str | int:
    """Return an argument in readable form: names in lists may have any length and any characters."""
    if isinstance(value, int):
        return value
    text = without_commands("".join(c if c.isprintable() else repr(c)[1:-1] for c in value[:LONGEST_ARGUMENT]))
    return text if len(value) <= LONGEST_ARGUMENT else f"{text}…"


def claim_reason(code: Code, *, key: Key, uid: Uid, done: bool = False, **numbers: str | int) -> Reason:
    """Return a reason about a claim; its text may use ``namespace``, ``claim`` and ``uid``."""
    arguments = {"namespace": key[0], "claim": key[1], "uid": uid} | numbers
    subject = Subject(kind="ResourceClaim", key=key, uid=uid)
    return Reason(code=code, subject=subject, arguments=tuple(arguments.items()), done=done)


def pod_reason(code: Code, *, key: Key, uid: Uid, done: bool = False, **numbers: str | int) -> Reason:
    """Return a reason about a pod; its text may use ``namespace`` and ``name``."""
    arguments = {"namespace": key[0], "name": key[1]} | numbers
    subject = Subject(kind="Pod", key=key, uid=uid)
    return Reason(code=code, subject=subject, arguments=tuple(arguments.items()), done=done)


def list_names(names: Iterable[str]) -> str:
    """Return a few names for a text, and the number of further names."""
    found = tuple(names)
    rest = len(found) - LISTED_NAMES
    return ", ".join(found[:LISTED_NAMES]) + (f" and {rest} more" if rest > 0 else "")
