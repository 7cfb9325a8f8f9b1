"""The guidance on Reservations: meaning, cause and remedy of conditions, Events and rejections of pods."""

from collections.abc import Mapping
from typing import Final

from dra.engine.messages.texts import Guidance
from dra.engine.reservations.phases import ReservationReason
from dra.engine.reservations.rejections import RejectionReason

_SHOW_COMMAND: Final = "`kubectl get reservations -o wide`"

RESERVATION_REASON_GUIDANCE: Final[Mapping[ReservationReason, Guidance]] = {
    ReservationReason.SCHEDULED: Guidance(
        "The reservation has its node.", "A node was found that has what it asks for.", "Nothing."
    ),
    ReservationReason.UNSCHEDULABLE: Guidance(
        "No node has what the reservation asks for; it stays Pending and is tried again.",
        "What kube-scheduler said of its placeholder is in the message.",
        "Make room, ask for less, or loosen the template's node selector.",
    ),
    ReservationReason.AVAILABLE: Guidance(
        "What is reserved is held, and owners may enter.", "It has its node.", "Nothing."
    ),
    ReservationReason.SUCCEEDED: Guidance(
        "An owner has it, and one is all that it is for.",
        "`allocateOnce` is true, which is the default.",
        "Nothing; for several owners set `allocateOnce: false` in the next one.",
    ),
    ReservationReason.EXPIRED: Guidance(
        "The reservation is over; nothing is held for it any more.",
        "Its `ttl` or `expires` has passed, or its node is gone. Pods that entered run on.",
        "Create it anew if it is still needed, with a longer `ttl`.",
    ),
    ReservationReason.INVALID: Guidance(
        "Something in the object cannot be read; what it holds stays held, and nobody may enter.",
        "A slip in the spec or in an annotation; the message names the field.",
        "Correct the field that the message names: `kubectl edit reservation NAME`.",
    ),
    ReservationReason.VALID: Guidance("It can be read again.", "Somebody has corrected it.", "Nothing."),
    ReservationReason.FAILED_SCHEDULING: Guidance(
        "The Event that goes with `Unschedulable`.",
        "The text is kube-scheduler's about the placeholder, or the API server's that refused it.",
        "As for `Unschedulable`.",
    ),
    ReservationReason.FAILED_SCHEDULING_POD: Guidance(
        "On a pod that must run in a reservation: none of those that name the pod as an owner can take it now.",
        "The annotation `reservation-affinity` requires one; the text counts the reservations by what keeps them.",
        "Make room in one of them, make another one, or take the annotation off the pod.",
    ),
    ReservationReason.RESIZE_WAITS: Guidance(
        "The reservation is to hold more than its node has free; it holds what it held.",
        "Its template was changed, and pods use what it would need.",
        "Make room on the node, or ask for less.",
    ),
    ReservationReason.NODE_UNREADABLE: Guidance(
        "A node's annotation `node.koordinator.sh/reservation` cannot be read; the last valid one counts.",
        "A slip in it; the text says where.",
        "Correct it: `kubectl edit node NAME`.",
    ),
    ReservationReason.TAKEN: Guidance(
        "A pod has taken what is reserved for others.",
        "Its scheduler does not ask the extender, or it names its node.",
        "Have its scheduler ask the extender (`schedulerName`), or delete the pod.",
    ),
}

REJECTION_GUIDANCE: Final[Mapping[RejectionReason, Guidance]] = {
    RejectionReason.NOT_AVAILABLE: Guidance(
        "The reservation has no place, or is over.",
        "It is Pending, Succeeded or Failed.",
        f"See its phase: {_SHOW_COMMAND}.",
    ),
    RejectionReason.UNREADABLE: Guidance(
        "The reservation cannot be read.", "See condition `Readable` on it.", "Correct the field that it names."
    ),
    RejectionReason.USED_UP: Guidance(
        "It was for one owner, and one has it.",
        "`allocateOnce` is true, which is the default.",
        "Make another one, or one with `allocateOnce: false`.",
    ),
    RejectionReason.TERMINATING: Guidance("It is being deleted.", "Somebody deleted it.", "Make another one."),
    RejectionReason.NOT_OWNER: Guidance(
        "The pod is none of its owners.",
        "No entry of `spec.owners` matches the pod: object, controller, labels, namespace.",
        "Correct `spec.owners`, or the pod's labels.",
    ),
    RejectionReason.OTHER_NAME: Guidance(
        "The pod asks for a reservation of another name.",
        "Its annotation `scheduling.koordinator.sh/reservation-affinity` names one.",
        "Correct the name, or ask by labels.",
    ),
    RejectionReason.UNSCHEDULABLE: Guidance(
        "Nobody may enter it now.", "`spec.unschedulable` is true.", "Set it to false when it may be used again."
    ),
    RejectionReason.TAINTED: Guidance(
        "It has a taint that the pod does not tolerate.",
        "`spec.taints` of the reservation.",
        "Add the toleration to the pod's reservation affinity, or take the taint off.",
    ),
    RejectionReason.AFFINITY: Guidance(
        "The pod asks for other labels.",
        "Its reservation affinity selects by labels that this one has not got.",
        "Correct the selector, or label the reservation.",
    ),
    RejectionReason.NOT_EXACT: Guidance(
        "The pod asks for exactly what it needs, and this one has another size.",
        "Annotation `scheduling.koordinator.sh/exact-match-reservation`.",
        "Make a reservation of that size, or drop the annotation.",
    ),
    RejectionReason.NOTHING_IN_COMMON: Guidance(
        "It holds none of the resources that the pod requests.",
        "The template requests others.",
        "Let the template request what the pods do.",
    ),
    RejectionReason.SHORT: Guidance(
        "It is the pod's, and has not enough left.",
        "Other owners use it, or it was made too small.",
        "Wait for them, or make it larger: raise the template's requests.",
    ),
    RejectionReason.NODE_SHORT: Guidance(
        "The node has not enough free beside what is reserved there for others.",
        "Pods and reservations of others take it.",
        f"Wait, add nodes, or delete what is not needed: {_SHOW_COMMAND}.",
    ),
    RejectionReason.NO_MATCH: Guidance(
        "The pod must have a reservation, and the node has none for it.",
        "It has a reservation affinity that is required.",
        "Make one for it, or drop the affinity.",
    ),
    RejectionReason.NO_ROOM_IN_ANY: Guidance(
        "There are reservations for the pod on the node, and none has room.",
        "Others use them, or each lacks something.",
        "The Event has the numbers of each; wait, or make them larger.",
    ),
    RejectionReason.HOST_PORT: Guidance(
        "A host port that the pod, or the reservation, asks for is held on the node.",
        "The template of another reservation there has the same `hostPort`.",
        f"Wait until that reservation ends, or use another port: {_SHOW_COMMAND}.",
    ),
    RejectionReason.VACATING: Guidance(
        "The reservation for the pod became available a moment ago, and its placeholder is still on the node.",
        "The scheduler counts both, so it left that node out; any other node would be beside the reservation.",
        "Nothing: kube-scheduler tries again when the placeholder is gone.",
    ),
    RejectionReason.OTHER_NODE: Guidance(
        "The reservation may be placed on one node only, and this is another.",
        "Its template names a node.",
        "Make room on that node, or take the name out of the template.",
    ),
    RejectionReason.POLICY_CONFLICT: Guidance(
        "The node has a reservation of the other kind: with the default `allocatePolicy`, or without.",
        "The default policy and the others do not go together on one node.",
        "Use the same kind of policy for all reservations of a node.",
    ),
    RejectionReason.NO_SUCH_NODE: Guidance(
        "The node is not known.",
        "It came a moment ago, or is gone.",
        "Wait: kube-scheduler tries again.",
    ),
    RejectionReason.ELSEWHERE: Guidance(
        "The pod has a place on another node already.",
        "An earlier bind of it was not answered, and may still happen.",
        "Nothing: as soon as that is known it is bound, or tried again.",
    ),
}
