"""The guidance on Reservations: meaning, cause and remedy of conditions, Events and rejections of pods."""

from collections.abc import Mapping
from typing import Final

from dra.engine.messages.texts import Guidance
from dra.engine.reservations.phases import ReservationReason
from dra.engine.reservations.rejections import RejectionReason

_SHOW_COMMAND: Final = "`kubectl get reservations -o wide`"

RESERVATION_REASON_GUIDANCE: Final[Mapping[ReservationReason, Guidance]] = {
    ReservationReason.SCHEDULED: Guidance(
        "The reservation has a node.", "A node has the requested capacity free.", "Nothing."
    ),
    ReservationReason.UNSCHEDULABLE: Guidance(
        "No node has the requested capacity free, or no scheduler has tried the placeholder pod. The reservation stays "
        "Pending.",
        "The message has kube-scheduler's reasons against the placeholder pod, or names the scheduler that does not "
        "run.",
        "Free capacity, lower the requests of the template, or loosen its node selector. If no scheduler has tried the "
        "placeholder pod, delete the reservation and create it with another `schedulerName` in the template.",
    ),
    ReservationReason.AVAILABLE: Guidance(
        "The capacity is reserved, and owner pods can use it.", "The reservation has a node.", "Nothing."
    ),
    ReservationReason.SUCCEEDED: Guidance(
        "An owner pod uses the reservation, and no other pod can.",
        "`allocateOnce` is true, which is the default.",
        "Nothing. For several owner pods, create the next reservation with `allocateOnce: false`.",
    ),
    ReservationReason.EXPIRED: Guidance(
        "The reservation has ended and reserves nothing. Its owner pods keep running.",
        "`ttl` or `expires` has passed, or the node was deleted.",
        "Create the reservation again with a longer `ttl` if it is still needed.",
    ),
    ReservationReason.INVALID: Guidance(
        "A field of the reservation is invalid. Reserved capacity stays reserved, and no pod can use it.",
        "The spec or an annotation has a mistake; the message names the field.",
        "Correct the field that the message names: `kubectl edit reservation NAME`.",
    ),
    ReservationReason.VALID: Guidance(
        "All fields of the reservation are valid again.", "A user has corrected the field.", "Nothing."
    ),
    ReservationReason.FAILED_SCHEDULING: Guidance(
        "The Event that goes with `Unschedulable`.",
        "No node fits the placeholder pod, or the API server rejected the placeholder pod.",
        "As for `Unschedulable`.",
    ),
    ReservationReason.FAILED_SCHEDULING_RESERVATION: Guidance(
        "A pod requires a reservation, and none of those with a matching owner can take the pod now.",
        "The annotation `reservation-affinity` requires one; the message counts the reservations by their reasons.",
        "Free capacity in a reservation, create another one, or remove the annotation from the pod.",
    ),
    ReservationReason.RESIZE_WAITS: Guidance(
        "The node has too little free capacity for the new size, or the annotation cannot be read. The "
        "reservation keeps its old size.",
        "The new size was requested, and other pods use the capacity; or the message names a mistake in the "
        "annotation.",
        "Free capacity on the node, or correct the annotation `reservation-resize-allocatable`.",
    ),
    ReservationReason.INVALID_NODE_RESERVATION: Guidance(
        "A node's annotation `node.koordinator.sh/reservation` is invalid; the last valid one counts.",
        "The annotation has a mistake; the message names the field.",
        "Correct the annotation: `kubectl edit node NAME`.",
    ),
    ReservationReason.AMOUNTS_ONLY: Guidance(
        "The reservation holds CPUs as an amount, without a claim (condition `ClaimsHeld=False`).",
        "The template requests bound CPUs (LSR or LSE), and the controller runs in mode alongside.",
        "Start the controller in mode replace to keep these CPUs. Otherwise nothing has to be done: other pods "
        "cannot take the amount.",
    ),
    ReservationReason.CLAIMS_HELD_AS_WHOLE: Guidance(
        "The Reservation holds claims that serve one owner pod at a time, although several pods may use it.",
        "`allocateOnce` is false, and the template asks for CPUs or GPUs in Koordinator's form: a claim is handed over "
        "to an owner pod that asks for exactly the same, and is not divided among several.",
        "For owner pods that ask for less, such as one card each, make one Reservation for each pod.",
    ),
    ReservationReason.EXTENDED_RESOURCES_NOT_HELD: Guidance(
        "The Reservation does not hold the devices of an extended resource, such as `nvidia.com/gpu`.",
        "A DeviceClass serves the resource: kube-scheduler makes a claim for the placeholder, which goes with it.",
        "Request the devices by a ResourceClaimTemplate, or cards by `koordinator.sh/gpu`.",
    ),
    ReservationReason.RESERVED_CAPACITY_TAKEN: Guidance(
        "A pod uses capacity that is reserved for other pods.",
        "Its scheduler does not call the extender, the pod names its node itself, or it was resized in place, which "
        "its kubelet alone decides.",
        "Set `schedulerName` to a scheduler that calls the extender, resize the pod back, or delete the pod.",
    ),
    ReservationReason.RESERVED_CAPACITY_SHORT: Guidance(
        "A node has less than its pods and Reservations take.",
        "Its allocatable has shrunk, or annotation `node.koordinator.sh/reservation` keeps more than before.",
        "Give the node back what it had, or delete pods or Reservations there. `kubectl dra audit` shows it.",
    ),
}

REJECTION_GUIDANCE: Final[Mapping[RejectionReason, Guidance]] = {
    RejectionReason.NOT_AVAILABLE: Guidance(
        "The reservation has no node yet, or has ended.",
        "Its phase is Pending, Succeeded or Failed.",
        f"Check its phase: {_SHOW_COMMAND}.",
    ),
    RejectionReason.UNREADABLE: Guidance(
        "A field of the reservation is invalid.",
        "The condition `Readable` of the reservation names the field.",
        "Correct the field.",
    ),
    RejectionReason.ALREADY_ALLOCATED: Guidance(
        "Another owner pod uses the reservation.",
        "`allocateOnce` is true, which is the default.",
        "Create another reservation, or one with `allocateOnce: false`.",
    ),
    RejectionReason.TERMINATING: Guidance(
        "The reservation is being deleted.", "A user or a controller has deleted it.", "Create another reservation."
    ),
    RejectionReason.NOT_OWNER: Guidance(
        "The pod is not an owner of the reservation.",
        "No entry of `spec.owners` matches the pod by object, controller, labels and namespace.",
        "Correct `spec.owners`, or the labels of the pod.",
    ),
    RejectionReason.OTHER_NAME: Guidance(
        "The pod requires a reservation with another name.",
        "Its annotation `scheduling.koordinator.sh/reservation-affinity` names one.",
        "Correct the name, or select reservations by labels.",
    ),
    RejectionReason.UNSCHEDULABLE: Guidance(
        "No new pod can use the reservation.",
        "`spec.unschedulable` is true.",
        "Set `spec.unschedulable` to false when pods may use the reservation again.",
    ),
    RejectionReason.UNTOLERATED_TAINT: Guidance(
        "The reservation has a taint that the pod does not tolerate.",
        "`spec.taints` of the reservation has the taint.",
        "Add a toleration to the pod's reservation affinity, or remove the taint.",
    ),
    RejectionReason.AFFINITY_MISMATCH: Guidance(
        "The reservation does not match the pod's reservation affinity.",
        "The affinity selects labels that neither the reservation nor its node has.",
        "Correct the selector, or label the reservation.",
    ),
    RejectionReason.NOT_EXACT_MATCHED: Guidance(
        "The pod requires a reservation of exactly its own size.",
        "The pod has the annotation `scheduling.koordinator.sh/exact-match-reservation`.",
        "Create a reservation of that size, or remove the annotation.",
    ),
    RejectionReason.NOTHING_IN_COMMON: Guidance(
        "The reservation has none of the resources and claims that the pod requests.",
        "The template requests other ones, or the pod requests none.",
        "Let the template request the same resources and claims as the pods.",
    ),
    RejectionReason.RESERVATION_INSUFFICIENT: Guidance(
        "The pod is an owner, and the reservation has too little left.",
        "Other owner pods use it, or its requests are too small.",
        "Wait until an owner pod ends, or raise the requests of the template.",
    ),
    RejectionReason.NODE_INSUFFICIENT: Guidance(
        "The node has too little unreserved capacity.",
        "Pods and reservations of others use the capacity.",
        f"Wait, add nodes, or delete reservations that are not needed: {_SHOW_COMMAND}.",
    ),
    RejectionReason.NO_RESERVATIONS_MATCH: Guidance(
        "The pod requires a reservation, and the node has none that matches.",
        "The pod has a reservation affinity.",
        "Create a reservation for the pod, or remove the affinity.",
    ),
    RejectionReason.NO_RESERVATION_FITS: Guidance(
        "The node has reservations for the pod, and each has too little left.",
        "Other owner pods use them, or their requests are too small.",
        "Read the numbers in the Event; wait, or raise the requests of a template.",
    ),
    RejectionReason.HOST_PORT_HELD: Guidance(
        "A host port that the pod or the reservation requests is reserved on the node.",
        "The template of another reservation there has the same `hostPort`.",
        f"Wait until that reservation ends, or use another port: {_SHOW_COMMAND}.",
    ),
    RejectionReason.PLACEHOLDER_LEAVING: Guidance(
        "The reservation for the pod is available on another node, where its placeholder pod still exists.",
        "Until the placeholder is deleted, kube-scheduler counts both, so it left that node out.",
        "Nothing: kube-scheduler tries again when the placeholder is gone.",
    ),
    RejectionReason.OTHER_NODE: Guidance(
        "The reservation is for one node, and this is another.",
        "The template has a `nodeName`.",
        "Free capacity on the named node, or remove `nodeName` from the template.",
    ),
    RejectionReason.ALLOCATE_POLICY_CONFLICT: Guidance(
        "The node has a reservation with an `allocatePolicy` that excludes this one.",
        "Reservations with policy Default share no node with those of other policies.",
        "Use policy Default for all reservations of a node, or for none.",
    ),
    RejectionReason.NODE_UNKNOWN: Guidance(
        "The extender does not know the node.",
        "The node was created or deleted a moment ago.",
        "Wait: kube-scheduler tries again.",
    ),
    RejectionReason.PLACED_ELSEWHERE: Guidance(
        "The pod is already assigned to another node.",
        "An earlier binding was not answered, and may still succeed.",
        "Nothing: when the outcome is known, the pod is bound, or kube-scheduler tries again.",
    ),
}
