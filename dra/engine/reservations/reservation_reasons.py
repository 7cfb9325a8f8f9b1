"""The reasons of conditions and Events of Reservations."""

from dra.engine.messages.texts import ExplainedReason, explain


class ReservationReason(ExplainedReason):
    """The reason of a condition or an Event."""

    SCHEDULED = explain(
        "Scheduled", "The reservation has a node.", "A node has the requested capacity free.", "Nothing."
    )
    UNSCHEDULABLE = explain(
        "Unschedulable",
        "No node has the requested capacity free, or no scheduler has tried the placeholder pod. The reservation stays "
        "Pending.",
        "The message has kube-scheduler's reasons against the placeholder pod, or names the scheduler that does not "
        "run.",
        "Free capacity, lower the requests of the template, or loosen its node selector. If no scheduler has tried the "
        "placeholder pod, delete the reservation and create it with another `schedulerName` in the template.",
    )
    AVAILABLE = explain(
        "Available", "The capacity is reserved, and owner pods can use it.", "The reservation has a node.", "Nothing."
    )
    SUCCEEDED = explain(
        "Succeeded",
        "An owner pod uses the reservation, and no other pod can.",
        "`allocateOnce` is true, which is the default.",
        "Nothing. For several owner pods, create the next reservation with `allocateOnce: false`.",
    )
    EXPIRED = explain(
        "Expired",
        "The reservation has ended and reserves nothing. Its owner pods keep running.",
        "`ttl` or `expires` has passed, or the node was deleted.",
        "Create the reservation again with a longer `ttl` if it is still needed.",
    )
    INVALID = explain(
        "Invalid",
        "A field of the reservation is invalid. Reserved capacity stays reserved, and no pod can use it.",
        "The spec or an annotation has a mistake; the message names the field.",
        "Correct the field that the message names: `kubectl edit reservation NAME`.",
    )
    VALID = explain(
        "Valid", "All fields of the reservation are valid again.", "A user has corrected the field.", "Nothing."
    )
    FAILED_SCHEDULING = explain(
        "FailedScheduling",
        "The Event that goes with `Unschedulable`.",
        "No node fits the placeholder pod, or the API server rejected the placeholder pod.",
        "As for `Unschedulable`.",
    )
    FAILED_SCHEDULING_RESERVATION = explain(
        "FailedScheduling-Reservation",
        "A pod requires a reservation, and none of those with a matching owner can take the pod now.",
        "The annotation `reservation-affinity` requires one; the message counts the reservations by their reasons.",
        "Free capacity in a reservation, create another one, or remove the annotation from the pod.",
    )
    RESIZE_WAITS = explain(
        "ResizeWaits",
        "The node has too little free capacity for the new size, or the annotation cannot be read. The "
        "reservation keeps its old size.",
        "The new size was requested, and other pods use the capacity; or the message names a mistake in the "
        "annotation.",
        "Free capacity on the node, or correct the annotation `reservation-resize-allocatable`.",
    )
    INVALID_NODE_RESERVATION = explain(
        "InvalidNodeReservation",
        "A node's annotation `node.koordinator.sh/reservation` is invalid; the last valid one counts.",
        "The annotation has a mistake; the message names the field.",
        "Correct the annotation: `kubectl edit node NAME`.",
    )
    AMOUNTS_ONLY = explain(
        "AmountsOnly",
        "The reservation holds CPUs as an amount, without a claim (condition `ClaimsHeld=False`).",
        "The template requests bound CPUs (LSR or LSE), and the controller runs in mode alongside.",
        "Start the controller in mode replace to keep these CPUs. Otherwise nothing has to be done: other pods "
        "cannot take the amount.",
    )
    CLAIMS_HELD_AS_WHOLE = explain(
        "ClaimsHeldAsWhole",
        "The Reservation holds claims that serve one owner pod at a time, although several pods may use it.",
        "`allocateOnce` is false, and the template asks for CPUs or GPUs in Koordinator's form: a claim is handed over "
        "to an owner pod that asks for exactly the same, and is not divided among several.",
        "For owner pods that ask for less, such as one card each, make one Reservation for each pod.",
    )
    EXTENDED_RESOURCES_NOT_HELD = explain(
        "ExtendedResourcesNotHeld",
        "The Reservation does not hold the devices of an extended resource, such as `nvidia.com/gpu`.",
        "A DeviceClass serves the resource: kube-scheduler makes a claim for the placeholder, which goes with it.",
        "Request the devices by a ResourceClaimTemplate, or cards by `koordinator.sh/gpu`.",
    )
    RESERVED_CAPACITY_TAKEN = explain(
        "ReservedCapacityTaken",
        "A pod uses capacity that is reserved for other pods.",
        "Its scheduler does not call the extender, the pod names its node itself, or it was resized in place, which "
        "its kubelet alone decides.",
        "Set `schedulerName` to a scheduler that calls the extender, resize the pod back, or delete the pod.",
    )
    RESERVED_CAPACITY_SHORT = explain(
        "ReservedCapacityShort",
        "A node has less than its pods and Reservations take.",
        "Its allocatable has shrunk, or annotation `node.koordinator.sh/reservation` keeps more than before.",
        "Give the node back what it had, or delete pods or Reservations there. `kubectl dra audit` shows it.",
    )
