"""The reasons why a reservation or a node rejects a pod: data with numbers, printed in Koordinator's words."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from dra.engine.kube_scheduler.host_ports import HOST_PORTS_TAKEN
from dra.model.meta import Struct
from dra.model.quantities import CPU, NANOS_PER_UNIT, PODS


class RejectionReason(StrEnum):
    """The rule or the shortage because of which a pod is rejected."""

    # One reservation: the pod may not use it.
    NOT_AVAILABLE = "NotAvailable"
    UNREADABLE = "Unreadable"
    ALREADY_ALLOCATED = "AlreadyAllocated"
    TERMINATING = "Terminating"
    NOT_OWNER = "NotOwner"
    OTHER_NAME = "OtherName"
    UNSCHEDULABLE = "Unschedulable"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    AFFINITY_MISMATCH = "AffinityMismatch"
    NOT_EXACT_MATCHED = "NotExactMatched"
    NOTHING_IN_COMMON = "NothingInCommon"
    # One reservation: the pod may use it, but its capacity is not sufficient.
    RESERVATION_INSUFFICIENT = "ReservationInsufficient"
    # The node.
    NODE_INSUFFICIENT = "NodeInsufficient"
    NO_RESERVATIONS_MATCH = "NoReservationsMatch"
    NO_RESERVATION_FITS = "NoReservationFits"
    HOST_PORT_HELD = "HostPortHeld"
    PLACEHOLDER_LEAVING = "PlaceholderLeaving"
    OTHER_NODE = "OtherNode"
    ALLOCATE_POLICY_CONFLICT = "AllocatePolicyConflict"
    NODE_UNKNOWN = "NodeUnknown"
    # A binding.
    PLACED_ELSEWHERE = "PlacedElsewhere"


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
