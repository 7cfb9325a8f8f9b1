"""The reasons of a Reservation's conditions and Events, and of Events about what is reserved: a closed set.

Those of conditions are Koordinator's words; whoever waits for one of them need not know who set it.
"""

from enum import StrEnum


class ReservationReason(StrEnum):
    """Why a condition is as it is, and what an Event tells."""

    # of conditions; some are Events, too
    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    VALID = "Valid"
    # of Events alone
    FAILED_SCHEDULING = "FailedScheduling"
    FAILED_SCHEDULING_POD = "FailedScheduling-Reservation"
    RESIZE_WAITS = "ResizeWaits"
    NODE_UNREADABLE = "InvalidNodeReservation"
    TAKEN = "ReservedCapacityTaken"
