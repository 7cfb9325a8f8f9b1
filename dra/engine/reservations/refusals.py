"""Why a pod cannot have a reservation, or a node: data with numbers, in the words that Koordinator's users know."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from dra.engine.reservations.amounts import CPU, ONE, PODS
from dra.model.meta import Struct


class Why(StrEnum):
    """What is in the way."""

    # of one reservation: no candidate for the pod
    NOT_AVAILABLE = "NotAvailable"
    UNREADABLE = "Unreadable"
    USED_UP = "AlreadyAllocated"
    TERMINATING = "Terminating"
    NOT_OWNER = "NotOwner"
    OTHER_NAME = "OtherName"
    UNSCHEDULABLE = "Unschedulable"
    TAINTED = "UntoleratedTaint"
    AFFINITY = "AffinityMismatch"
    NOT_EXACT = "NotExactMatched"
    NOTHING_IN_COMMON = "NothingInCommon"
    # of one reservation: a candidate without enough room
    SHORT = "ReservationInsufficient"
    # of the node
    NODE_SHORT = "NodeInsufficient"
    NO_MATCH = "NoReservationsMatch"
    NO_ROOM_IN_ANY = "NoReservationFits"
    HOST_PORT = "HostPortHeld"
    VACATING = "PlaceholderLeaving"
    OTHER_NODE = "OtherNode"
    POLICY_CONFLICT = "AllocatePolicyConflict"
    NO_SUCH_NODE = "NodeUnknown"
    # of a bind
    GONE = "ReservationGone"
    ELSEWHERE = "PlacedElsewhere"


_NODE: Final = {
    Why.NO_MATCH: "node(s) no reservations match reservation affinity",
    Why.NO_ROOM_IN_ANY: "node(s) no reservation(s) to meet the requirements",
    Why.HOST_PORT: "node(s) didn't have free ports for the requested pod ports",
    Why.VACATING: "the pod's reservation is on another node, which its placeholder is about to leave",
    Why.OTHER_NODE: "node(s) didn't match the nodeName specified by reservation",
    Why.POLICY_CONFLICT: "node(s) reservation allocate policy conflict",
    Why.NO_SUCH_NODE: "node(s) not found",
    Why.GONE: "cannot find target reservation",
    Why.TERMINATING: "target reservation is terminating",
    Why.USED_UP: "reservation has allocateOnce enabled and has already been allocated",
}
_COUNTED: Final = {
    Why.NOT_AVAILABLE: "is not available",
    Why.UNREADABLE: "cannot be read",
    Why.USED_UP: "has allocateOnce enabled and has already been allocated",
    Why.TERMINATING: "is terminating",
    Why.NOT_OWNER: "is not for the pod",
    Why.OTHER_NAME: "didn't match the requested reservation name",
    Why.UNSCHEDULABLE: "is unschedulable",
    Why.AFFINITY: "didn't match affinity rules",
    Why.NOT_EXACT: "is not exact matched",
    Why.NOTHING_IN_COMMON: "has no resource in common",
}
UNRESOLVABLE: Final = frozenset({Why.OTHER_NODE, Why.POLICY_CONFLICT})
"""What no preemption can help."""


class Refusal(Struct, frozen=True):
    """One reason; amounts in billionths."""

    why: Why
    subject: str = ""
    """The resource, the taint, or what is wrong."""
    requested: int = 0
    used: int = 0
    capacity: int = 0
    named: bool = False
    """Whether the pod asks for this very reservation: then the text has the numbers."""

    @property
    def text(self) -> str:
        """The text without the node."""
        if self.why is Why.NODE_SHORT:
            return "Too many pods by node" if self.subject == PODS else f"Insufficient {self.subject} by node"
        if self.why is Why.SHORT:
            short = "Too many pods" if self.subject == PODS else f"Insufficient {self.subject}"
            unit = ONE // 1000 if self.subject == CPU else ONE
            numbers = (
                f", requested: {-(-self.requested // unit)}, used: {-(-self.used // unit)}, "
                f"capacity: {self.capacity // unit}"
            )
            return f"Reservation(s) {short}{numbers if self.named else ''}"
        if self.why is Why.ELSEWHERE:
            return f"the pod has a place on node {self.subject} already"
        return _NODE.get(self.why) or f"Reservation(s) {_told(self)}"


def _told(refusal: Refusal) -> str:
    if refusal.why is Why.TAINTED:
        return f"had untolerated taint {refusal.subject}"
    return _COUNTED[refusal.why]


def counted(refusals: Iterable[Refusal]) -> list[str]:
    """Return upstream's counts of many: ``2 Reservation(s) is unschedulable``, the most frequent first.

    Reservations of other owners are not among them: what does not concern the pod would hide what does.
    """
    tally = Counter(_of_reservation(each) for each in refusals if each.why is not Why.NOT_OWNER)
    return [f"{count} {text}" for text, count in sorted(tally.items(), key=lambda item: (-item[1], item[0]))]


def summary(refusals: Iterable[Refusal], *, owned: int) -> str:
    """Return the message of Event ``FailedScheduling-Reservation``: of the reservations that name the pod as owner."""
    parts = counted(refusals)
    return f"0/{owned} reservations are available{': ' if parts else ''}{', '.join(parts)}."


def _of_reservation(refusal: Refusal) -> str:
    if refusal.why in _COUNTED or refusal.why is Why.TAINTED:
        return f"Reservation(s) {_told(refusal)}"
    if refusal.why is Why.SHORT:
        return refusal.text
    return f"Reservation(s) for node reason that {refusal.text}"
