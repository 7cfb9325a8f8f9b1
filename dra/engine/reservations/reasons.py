"""The reasons of Reservations' conditions and Events, and of Events about reserved capacity: a closed set.

Reasons of conditions are Koordinator's words, so a client can wait for a reason without knowing which component set it.
"""

from enum import StrEnum


class ReservationReason(StrEnum):
    """The reason of a condition or an Event."""

    # Conditions; some are Events, too.
    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    VALID = "Valid"
    # Events only.
    FAILED_SCHEDULING = "FailedScheduling"
    FAILED_SCHEDULING_POD = "FailedScheduling-Reservation"
    RESIZE_WAITS = "ResizeWaits"
    NODE_UNREADABLE = "InvalidNodeReservation"
    TAKEN = "ReservedCapacityTaken"
