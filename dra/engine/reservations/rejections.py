"""The reasons why a reservation or a node rejects a pod: data with numbers, printed in Koordinator's words."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from dra.engine.kube_scheduler.host_ports import HOST_PORTS_TAKEN
from dra.engine.messages.texts import ExplainedReason, explain
from dra.model.meta import Struct
from dra.model.quantities import CPU, NANOS_PER_UNIT, PODS

_SHOW_COMMAND: Final = "`kubectl get reservations -o wide`"


class RejectionReason(ExplainedReason):
    """The rule or the shortage because of which a pod is rejected."""

    # One reservation: the pod may not use it.
    NOT_AVAILABLE = explain(
        "NotAvailable",
        "The reservation has no node yet, or has ended.",
        "Its phase is Pending, Succeeded or Failed.",
        f"Check its phase: {_SHOW_COMMAND}.",
    )
    UNREADABLE = explain(
        "Unreadable",
        "A field of the reservation is invalid.",
        "The condition `Readable` of the reservation names the field.",
        "Correct the field.",
    )
    ALREADY_ALLOCATED = explain(
        "AlreadyAllocated",
        "Another owner pod uses the reservation.",
        "`allocateOnce` is true, which is the default.",
        "Create another reservation, or one with `allocateOnce: false`.",
    )
    TERMINATING = explain(
        "Terminating",
        "The reservation is being deleted.",
        "A user or a controller has deleted it.",
        "Create another reservation.",
    )
    NOT_OWNER = explain(
        "NotOwner",
        "The pod is not an owner of the reservation.",
        "No entry of `spec.owners` matches the pod by object, controller, labels and namespace.",
        "Correct `spec.owners`, or the labels of the pod.",
    )
    OTHER_NAME = explain(
        "OtherName",
        "The pod requires a reservation with another name.",
        "Its annotation `scheduling.koordinator.sh/reservation-affinity` names one.",
        "Correct the name, or select reservations by labels.",
    )
    UNSCHEDULABLE = explain(
        "Unschedulable",
        "No new pod can use the reservation.",
        "`spec.unschedulable` is true.",
        "Set `spec.unschedulable` to false when pods may use the reservation again.",
    )
    UNTOLERATED_TAINT = explain(
        "UntoleratedTaint",
        "The reservation has a taint that the pod does not tolerate.",
        "`spec.taints` of the reservation has the taint.",
        "Add a toleration to the pod's reservation affinity, or remove the taint.",
    )
    AFFINITY_MISMATCH = explain(
        "AffinityMismatch",
        "The reservation does not match the pod's reservation affinity.",
        "The affinity selects labels that neither the reservation nor its node has.",
        "Correct the selector, or label the reservation.",
    )
    NOT_EXACT_MATCHED = explain(
        "NotExactMatched",
        "The pod requires a reservation of exactly its own size.",
        "The pod has the annotation `scheduling.koordinator.sh/exact-match-reservation`.",
        "Create a reservation of that size, or remove the annotation.",
    )
    NOTHING_IN_COMMON = explain(
        "NothingInCommon",
        "The reservation has none of the resources and claims that the pod requests.",
        "The template requests other ones, or the pod requests none.",
        "Let the template request the same resources and claims as the pods.",
    )
    # One reservation: the pod may use it, but its capacity is not sufficient.
    RESERVATION_INSUFFICIENT = explain(
        "ReservationInsufficient",
        "The pod is an owner, and the reservation has too little left.",
        "Other owner pods use it, or its requests are too small.",
        "Wait until an owner pod ends, or raise the requests of the template.",
    )
    # The node.
    NODE_INSUFFICIENT = explain(
        "NodeInsufficient",
        "The node has too little unreserved capacity.",
        "Pods and reservations of others use the capacity.",
        f"Wait, add nodes, or delete reservations that are not needed: {_SHOW_COMMAND}.",
    )
    NO_RESERVATIONS_MATCH = explain(
        "NoReservationsMatch",
        "The pod requires a reservation, and the node has none that matches.",
        "The pod has a reservation affinity.",
        "Create a reservation for the pod, or remove the affinity.",
    )
    NO_RESERVATION_FITS = explain(
        "NoReservationFits",
        "The node has reservations for the pod, and each has too little left.",
        "Other owner pods use them, or their requests are too small.",
        "Read the numbers in the Event; wait, or raise the requests of a template.",
    )
    HOST_PORT_HELD = explain(
        "HostPortHeld",
        "A host port that the pod or the reservation requests is reserved on the node.",
        "The template of another reservation there has the same `hostPort`.",
        f"Wait until that reservation ends, or use another port: {_SHOW_COMMAND}.",
    )
    PLACEHOLDER_LEAVING = explain(
        "PlaceholderLeaving",
        "The reservation for the pod is available on another node, where its placeholder pod still exists.",
        "Until the placeholder is deleted, kube-scheduler counts both, so it left that node out.",
        "Nothing: kube-scheduler tries again when the placeholder is gone.",
    )
    OTHER_NODE = explain(
        "OtherNode",
        "The reservation is for one node, and this is another.",
        "The template has a `nodeName`.",
        "Free capacity on the named node, or remove `nodeName` from the template.",
    )
    ALLOCATE_POLICY_CONFLICT = explain(
        "AllocatePolicyConflict",
        "The node has a reservation with an `allocatePolicy` that excludes this one.",
        "Reservations with policy Default share no node with those of other policies.",
        "Use policy Default for all reservations of a node, or for none.",
    )
    NODE_UNKNOWN = explain(
        "NodeUnknown",
        "The extender does not know the node.",
        "The node was created or deleted a moment ago.",
        "Wait: kube-scheduler tries again.",
    )
    # A binding.
    PLACED_ELSEWHERE = explain(
        "PlacedElsewhere",
        "The pod is already assigned to another node.",
        "An earlier binding was not answered, and may still succeed.",
        "Nothing: when the outcome is known, the pod is bound, or kube-scheduler tries again.",
    )


_NODE_TEXTS: Final = {
    RejectionReason.NO_RESERVATIONS_MATCH: "node(s) no reservations match reservation affinity",
    RejectionReason.NO_RESERVATION_FITS: "node(s) no reservation(s) to meet the requirements",
    RejectionReason.HOST_PORT_HELD: HOST_PORTS_TAKEN,
    RejectionReason.PLACEHOLDER_LEAVING: (
        "the pod's reservation is on another node, where its placeholder is still being deleted"
    ),
    RejectionReason.OTHER_NODE: "node(s) didn't match the nodeName specified by reservation",
    RejectionReason.ALLOCATE_POLICY_CONFLICT: "node(s) reservation allocate policy conflict",
    RejectionReason.NODE_UNKNOWN: "node(s) not found",
    RejectionReason.TERMINATING: "target reservation is terminating",
    RejectionReason.ALREADY_ALLOCATED: "reservation has allocateOnce enabled and has already been allocated",
}
_RESERVATION_TEXTS: Final = {
    RejectionReason.NOT_AVAILABLE: "is not available",
    RejectionReason.UNREADABLE: "has invalid fields",
    RejectionReason.ALREADY_ALLOCATED: "has allocateOnce enabled and has already been allocated",
    RejectionReason.TERMINATING: "is terminating",
    RejectionReason.NOT_OWNER: "has no owner that matches the pod",
    RejectionReason.OTHER_NAME: "didn't match the requested reservation name",
    RejectionReason.UNSCHEDULABLE: "is unschedulable",
    RejectionReason.AFFINITY_MISMATCH: "didn't match affinity rules",
    RejectionReason.NOT_EXACT_MATCHED: "is not exact matched",
    RejectionReason.NOTHING_IN_COMMON: "has none of the resources and claims that the pod requests",
}
UNRESOLVABLE: Final = frozenset({RejectionReason.OTHER_NODE, RejectionReason.ALLOCATE_POLICY_CONFLICT})
"""Reasons that no preemption can resolve."""


class Rejection(Struct, frozen=True):
    """A single reason for a rejection; amounts in billionths."""

    reason: RejectionReason = msgspec.field(name="why")
    """The key in JSON (``kubectl dra describe -o json``) is ``why``."""
    subject: str = ""
    """The resource, the taint, or the error."""
    requested: int = 0
    used: int = 0
    capacity: int = 0
    named: bool = False
    """Whether the pod names this reservation: then the text contains the numbers."""

    @property
    def text(self) -> str:
        """Return the text without the name of the node."""
        if self.reason is RejectionReason.NODE_INSUFFICIENT:
            return "Too many pods by node" if self.subject == PODS else f"Insufficient {self.subject} by node"
        if self.reason is RejectionReason.RESERVATION_INSUFFICIENT:
            short = "Too many pods" if self.subject == PODS else f"Insufficient {self.subject}"
            unit = NANOS_PER_UNIT // 1000 if self.subject == CPU else NANOS_PER_UNIT
            numbers = (
                f", requested: {-(-self.requested // unit)}, used: {-(-self.used // unit)}, "
                f"capacity: {self.capacity // unit}"
            )
            return f"Reservation(s) {short}{numbers if self.named else ''}"
        if self.reason is RejectionReason.PLACED_ELSEWHERE:
            return f"the pod is already assigned to node {self.subject}"
        return _NODE_TEXTS.get(self.reason) or f"Reservation(s) {_reservation_text(self)}"


def _reservation_text(rejection: Rejection) -> str:
    if rejection.reason is RejectionReason.UNTOLERATED_TAINT:
        return f"had untolerated taint {rejection.subject}"
    return _RESERVATION_TEXTS[rejection.reason]


def count_texts(rejections: Iterable[Rejection]) -> list[str]:
    """Return rejections counted as Koordinator does: ``2 Reservation(s) is unschedulable``, the most frequent first.

    Reservations of other owners are left out: they do not concern the pod and would hide those that do.
    """
    tally = Counter(
        _counted_text(rejection) for rejection in rejections if rejection.reason is not RejectionReason.NOT_OWNER
    )
    return [f"{count} {text}" for text, count in sorted(tally.items(), key=lambda item: (-item[1], item[0]))]


def event_message(rejections: Iterable[Rejection], *, owned: int) -> str:
    """Return the message of Event ``FailedScheduling-Reservation``, about reservations that the pod is an owner of."""
    parts = count_texts(rejections)
    return f"0/{owned} reservations are available{': ' if parts else ''}{', '.join(parts)}."


def _counted_text(rejection: Rejection) -> str:
    if rejection.reason in _RESERVATION_TEXTS or rejection.reason is RejectionReason.UNTOLERATED_TAINT:
        return f"Reservation(s) {_reservation_text(rejection)}"
    if rejection.reason is RejectionReason.RESERVATION_INSUFFICIENT:
        return rejection.text
    return f"Reservation(s) for node reason that {rejection.text}"
