"""Reasons: one value feeds the Event, the condition, the log line, the metric label and the CLI.

Every text names the object first, then the problem, what stays unchanged, and what to do. A text may name only commands
that exist.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from dra.engine.messages.remedies import without_commands
from dra.engine.messages.texts import singularize
from dra.model.event_type import EventType
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
    KEPT_WHILE_SUSPENDED = "KeptWhileSuspended"
    IN_DOUBT = "ReservationInDoubt"
    MALFORMED_REFERENCE = "MalformedReference"
    RESERVATION_IGNORED = "ReservationIgnored"
    UNKNOWN_ANNOTATION = "UnknownAnnotation"
    ALLOCATION_STUCK = "AllocationStuck"
    ALLOCATION_UNUSABLE = "AllocationUnusable"
    ALLOCATION_LOST = "AllocationLost"
    BOUND_WITHOUT_ALLOCATION = "BoundWithoutAllocation"
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
    CLAIM_IDLE = "ClaimIdle"
    NODE_MAY_BE_DELETED = "NodeMayBeDeleted"
    TEMPLATE_FAILED = "FailedTemplateCreation"
    FOREIGN_TEMPLATE = "ForeignTemplate"
    WAITS_FOR_CARDS = "WaitsForCards"
    CARD_SIZES_EXCEEDED = "CardSizesExceeded"
    CLAIM_LACKS_CARD_SIZES = "ClaimLacksCardSizes"
    CLAIM_RENEWED = "ClaimRenewed"
    PREPARE_REFUSED = "PrepareRefused"
    EVICTED_UNPREPARED = "EvictedUnprepared"
    NO_BOUND_CPUS = "NoBoundCPUs"
    UNKNOWN_QOS_CLASS = "UnknownQoSClass"


class ReasonText(NamedTuple):
    """The event type and the text of a reason."""

    severity: EventType
    text: str


REASON_TEXTS: Final[dict[Code, ReasonText]] = {
    Code.WORKLOAD_ENTERED: ReasonText(
        EventType.NORMAL, "is reserved for {workload}: any pod that references the claim may use it"
    ),
    Code.LIST_WINDOWED: ReasonText(
        EventType.NORMAL,
        "is used by {consuming} pods: starting pods are listed, and a guard entry keeps the claim allocated for the "
        "others",
    ),
    Code.WORKLOAD_RELEASED: ReasonText(EventType.NORMAL, "is no longer reserved for {workload}, which {cause}"),
    Code.OWNER_RELEASED: ReasonText(
        EventType.NORMAL,
        "was released by the controller of {workload}; the claim is deallocated when its last pod ends",
    ),
    Code.RELEASE_WAITS: ReasonText(
        EventType.NORMAL,
        "{workload} {cause}, but {pods} unfinished pods reference the claim; it stays reserved until the last pod ends",
    ),
    Code.DEALLOCATED: ReasonText(EventType.NORMAL, "was deallocated: {cause}"),
    Code.DEALLOCATION_WAITS: ReasonText(
        EventType.NORMAL,
        "is used by no pod, but a scheduler may still bind a pod to it ({pods} known); the claim stays allocated for "
        "up to {seconds} s",
    ),
    Code.LEADER_CHANGED: ReasonText(
        EventType.NORMAL, "is deallocated in {seconds} s: until then, late writes of the previous leader may arrive"
    ),
    Code.WORKLOAD_PENDING: ReasonText(
        EventType.NORMAL, "{workload} does not exist yet; the claim is reserved once the workload is created"
    ),
    Code.WORKLOAD_GONE: ReasonText(
        EventType.NORMAL,
        "is not reserved: {workload} with uid {expected} was deleted, so pods use the claim without a reservation. "
        "To reserve the claim for another object, correct annotation reserve.dra/reserved-for-uid",
    ),
    Code.WORKLOAD_UNREADABLE: ReasonText(
        EventType.WARNING,
        "{workload} cannot be checked: the controller has no permission to get, list and watch {kind}; the claim stays "
        "reserved. Grant the permission as ClusterRole dra-reserve-workload-reader does for other kinds",
    ),
    Code.WORKLOAD_UNKNOWN_KIND: ReasonText(
        EventType.WARNING,
        "{workload} cannot be checked: the API server does not serve {kind}; the claim stays reserved. Correct the "
        "reference, or install the CRD. See: kubectl api-resources",
    ),
    Code.WORKLOAD_KINDS_EXCEEDED: ReasonText(
        EventType.WARNING,
        "{workload} cannot be checked: claims of namespace {namespace} refer to more than {limit} kinds of workloads, "
        "and {kind} is not watched; the claim stays reserved. Delete claims for kinds that are no longer used, or ask "
        "an administrator to add a release rule for {kind}",
    ),
    Code.RULE_FAILED: ReasonText(
        EventType.WARNING,
        "{workload} cannot be checked: its release rule failed: {error}; the claim stays reserved until {workload} is "
        "deleted, or its controller releases the claim",
    ),
    Code.KEPT_WHILE_SUSPENDED: ReasonText(
        EventType.WARNING,
        "stays reserved for {workload}, which is suspended and has no pods: no other claim can get its devices; "
        "{advice}",
    ),
    Code.IN_DOUBT: ReasonText(
        EventType.NORMAL,
        "stays reserved until {workload} is deleted or can be checked: the controller does not know whether {workload} "
        "has released the claim. If you are certain that no process uses the devices, you can release the claim: "
        "kubectl dra release --help",
    ),
    Code.MALFORMED_REFERENCE: ReasonText(EventType.WARNING, "the workload reference is ignored: {error}"),
    Code.RESERVATION_IGNORED: ReasonText(
        EventType.WARNING,
        "is not reserved for {workload}: the claim was generated for {user} alone, and is released with its pod. "
        "To keep devices for all pods of {workload}, create a ResourceClaim that is reserved for {workload}, and name "
        "it in the pod template by resourceClaimName; otherwise remove the reservation from the ResourceClaimTemplate",
    ),
    Code.UNKNOWN_ANNOTATION: ReasonText(
        EventType.WARNING, "annotation {annotation} has no effect: the key is unknown. Did you mean {meant}?"
    ),
    Code.ALLOCATION_STUCK: ReasonText(
        EventType.WARNING,
        "no pod can use its allocation ({cause}) and {pods} pods wait; the claim is deallocated within {seconds} s, "
        "and the scheduler then allocates it again",
    ),
    Code.ALLOCATION_UNUSABLE: ReasonText(
        EventType.WARNING,
        "{pods} pods wait, and no node of its allocation can run any of the pods; the claim stays allocated: {why}",
    ),
    Code.ALLOCATION_LOST: ReasonText(
        EventType.WARNING,
        "is bound to node {node}, but claim {claim} is no longer allocated, and other claims may get its devices. "
        "Delete the pod when its work can be interrupted; only a controller replaces a deleted pod",
    ),
    Code.BOUND_WITHOUT_ALLOCATION: ReasonText(
        EventType.WARNING,
        "cannot start on node {node}: claim {claim} is not allocated, and no scheduler allocates a claim for a bound "
        "pod. Delete the pod, and create it without spec.nodeName for a scheduler that allocates claims; only a "
        "controller replaces a deleted pod. See: kubectl dra explain pod {name} -n {namespace}",
    ),
    Code.POD_OFF_ALLOCATION: ReasonText(
        EventType.WARNING,
        "cannot start on node {node}: the allocation of claim {claim} excludes the node. Delete the pod; only a "
        "controller replaces a deleted pod. See: kubectl dra explain pod {name} -n {namespace}",
    ),
    Code.SANDBOX_NOT_READY: ReasonText(
        EventType.WARNING,
        "is bound to node {node} for {seconds} s without a sandbox; other pods of claim {claim} are listed first. "
        "See: kubectl describe pod {name} -n {namespace}",
    ),
    Code.CONSUMER_LIMIT: ReasonText(
        EventType.WARNING,
        "{pods} pods wait for an entry: {listed} of 256 entries are in use, {finished} of them by finished pods. "
        "Beside the stock resourceclaim-controller, a pod keeps its entry until the pod is deleted: delete finished "
        "pods that are no longer needed. See: kubectl get pods -n {namespace} --field-selector status.phase=Succeeded",
    ),
    Code.WAITS_FOR_SLOT: ReasonText(
        EventType.NORMAL,
        "waits for an entry in claim {claim}: all 256 entries are in use. "
        "See: kubectl describe resourceclaim -n {namespace} {claim}",
    ),
    Code.LIST_TAKEN: ReasonText(
        EventType.WARNING,
        "{pods} pods wait for an entry: {taken} of 256 entries belong to other clients, and only these clients may "
        "remove the entries: {entries}",
    ),
    Code.STOCK_CONTROLLER_ACTIVE: ReasonText(
        EventType.WARNING,
        "the resourceclaim-controller of kube-controller-manager is running and restores removed entries. Add "
        "-resourceclaim-controller to --controllers of kube-controller-manager, or start this controller with --mode "
        "alongside",
    ),
    Code.DEVICE_HELD_TWICE: ReasonText(
        EventType.WARNING,
        "device {device} is also allocated to claim {other}. Decide which claim keeps the device, end the pods of the "
        "other claim, then delete the other claim. See: kubectl dra explain claim {claim} -n {namespace}",
    ),
    Code.DELETION_WAITS: ReasonText(EventType.NORMAL, "is being deleted and waits for {pods} pods that still use it"),
    Code.EVICTED: ReasonText(
        EventType.NORMAL,
        "was evicted: device {device} of claim {claim} has taint {taint} of {origin}, tolerated for {seconds} s",
    ),
    Code.GENERATION_FAILED: ReasonText(EventType.WARNING, "{kind} {entry}: {error}"),
    Code.WAITS_FOR_GROUP: ReasonText(
        EventType.WARNING,
        "waits for its claims: PodGroup {group} may request the same claims and cannot be read: {error}",
    ),
    Code.KEPT_BY_OTHERS: ReasonText(
        EventType.NORMAL,
        "stays allocated only for entries of other controllers: {entries}. If these controllers were removed for "
        "good, you can release the claim: kubectl dra release --help",
    ),
    Code.NODE_LOST: ReasonText(
        EventType.WARNING,
        "stays reserved: pods were deleted while node {node} did not report in, and may still run there. Bring the "
        "node back: the wait ends when the node is Ready for {seconds} s, rebooted or deleted. If the machine is "
        "certainly off, a cluster administrator can set the taint node.kubernetes.io/out-of-service, which ends all "
        "pods of the node",
    ),
    Code.PODS_VANISHED: ReasonText(
        EventType.NORMAL,
        "stays reserved for up to {seconds} s: {pods} pods vanished before a kubelet reported the end of their "
        "containers; the controller checks their nodes after the grace period",
    ),
    Code.GUARD_FOUND: ReasonText(
        EventType.NORMAL,
        "stays reserved for up to {seconds} s: its list had a guard entry when the controller started, and the guard "
        "may stand for pods that were deleted by force and still run",
    ),
    Code.FORCE_RELEASED: ReasonText(
        EventType.WARNING,
        "was released by force, as annotation reserve.dra/force-release requested; overridden: {overridden}",
    ),
    Code.FORCE_RELEASE_IGNORED: ReasonText(
        EventType.WARNING,
        "annotation reserve.dra/force-release is ignored: its value is not {uid}, the uid of this claim",
    ),
    Code.FORCE_RELEASE_BLOCKED: ReasonText(
        EventType.WARNING,
        "is not released by force: {pods} pods use the claim on Ready nodes ({names}); it stays reserved until the "
        "last pod ends. See: kubectl get pods -n {namespace} -o wide",
    ),
    Code.FORCE_RELEASE_WAITS: ReasonText(
        EventType.NORMAL,
        "is released by force within {seconds} s, once no pod can be bound to the claim ({pods} known)",
    ),
    Code.HELD: ReasonText(
        EventType.NORMAL, "is held for Reservation {reservation}: the devices stay allocated for its owners"
    ),
    Code.HOLD_ENDED: ReasonText(
        EventType.NORMAL,
        "is no longer held: Reservation {reservation} ended; the claim is deallocated when its last pod ends",
    ),
    Code.HOLD_LOST: ReasonText(
        EventType.WARNING,
        "is not allocated although Reservation {reservation} is Available: the Reservation holds no devices for new "
        "owners; running owners keep their devices. To hold devices again, delete the Reservation and create a new "
        "one. See: kubectl dra why reservation/{reservation}",
    ),
    Code.HANDED_OVER: ReasonText(
        EventType.NORMAL, "was handed over with its devices to pod {pod}, an owner of Reservation {reservation}"
    ),
    Code.WAITS_FOR_HELD: ReasonText(
        EventType.NORMAL,
        "waits for claim {claim}, which Reservation {reservation} holds for it, until {former} ends. "
        "See: kubectl describe resourceclaim -n {namespace} {claim}",
    ),
    Code.CLAIM_IDLE: ReasonText(
        EventType.WARNING,
        "has held {devices} devices for {hours} h without use, for {keeper}: no other claim can get them. Nothing "
        "frees the claim; end what it is kept for or delete the claim if nobody needs the devices",
    ),
    Code.NODE_MAY_BE_DELETED: ReasonText(
        EventType.WARNING,
        "stays reserved for {keeper} without a pod, and autoscalers count pods alone: {nodes} may be deleted as empty "
        "({signs}), and the next pod gets other devices or none. Annotation {annotations} keeps a node whose deletion "
        "has not begun, if its value is true; the owner of the node decides",
    ),
    Code.TEMPLATE_FAILED: ReasonText(
        EventType.WARNING, "ResourceClaimTemplate {template}, which the pod names, was not created: {error}"
    ),
    Code.FOREIGN_TEMPLATE: ReasonText(
        EventType.WARNING,
        "names ResourceClaimTemplate {template}, which lacks the label reserve.dra/made-from=koordinator: another "
        "client created the template, so it stays as it is, and the pod gets what the template requests. Delete the "
        "template to have it created from the pod's own request",
    ),
    Code.WAITS_FOR_CARDS: ReasonText(
        EventType.WARNING,
        "waits for ResourceClaimTemplate {template}, which is made as soon as a ResourceSlice of gpu.reserve.dra "
        "publishes a card for shares",
    ),
    Code.CARD_SIZES_EXCEEDED: ReasonText(
        EventType.WARNING,
        "cannot use cards of {sizes}: a claim has room for {limit} sizes of cards, and most cards of the cluster have "
        "others. A request for gpu-memory in place of gpu-memory-ratio may use all sizes",
    ),
    Code.CLAIM_LACKS_CARD_SIZES: ReasonText(
        EventType.WARNING,
        "cannot use cards of {sizes}: its claim {claim} was made before the cluster had them. Delete the pod, so that "
        "its controller creates a pod that can",
    ),
    Code.CLAIM_RENEWED: ReasonText(
        EventType.NORMAL,
        "gets another claim in place of {claim}, which was made before the cluster had cards of {sizes}",
    ),
    Code.PREPARE_REFUSED: ReasonText(
        EventType.WARNING,
        "cannot start on node {node}, which refuses claim {claim} ({cause}); the claim keeps its CPUs from other pods. "
        "It is not evicted, since {obstacle}. Delete the pod, so that another node is found; only a controller "
        "replaces a deleted pod. See: kubectl describe resourceclaim -n {namespace} {claim}",
    ),
    Code.EVICTED_UNPREPARED: ReasonText(
        EventType.NORMAL,
        "was evicted: node {node} had refused claim {claim} for {seconds} s ({cause}), and no container had started; "
        "{owner} creates a new pod",
    ),
    Code.NO_BOUND_CPUS: ReasonText(
        EventType.NORMAL,
        "gets no CPUs of its own and no claim for CPUs: annotation {annotation} has the bind policy {word}, so the pod "
        "uses the shared CPUs of its node",
    ),
    Code.UNKNOWN_QOS_CLASS: ReasonText(
        EventType.WARNING,
        "gets no CPUs of its own: label koordinator.sh/qosClass is {qos}, and known are {known}. Correct the label in "
        "the pod template of the workload",
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
    listed = tuple(names)
    rest = len(listed) - LISTED_NAMES
    return ", ".join(listed[:LISTED_NAMES]) + (f" and {rest} more" if rest > 0 else "")
