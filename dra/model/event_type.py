"""The type of an Event, as in ``type`` of events.k8s.io/v1."""

from enum import StrEnum


class EventType(StrEnum):
    """The types of Events that the API server accepts."""

    NORMAL = "Normal"
    WARNING = "Warning"
