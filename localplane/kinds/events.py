"""Defines Events in two groups: ``v1`` is the stored version, ``events.k8s.io/v1`` converts the same objects.

Events of ``events.k8s.io/v1`` are validated strictly. Events of ``v1`` are validated leniently: an event without
``eventTime`` needs little more than the namespace of its object.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.model import name_validation
from localplane.kinds import columns, field_errors
from localplane.kinds.kind import Kind, NoStatusStrategy, PrinterColumn
from localplane.objects import Object
from localplane.status_errors import FieldError

_MAX_FIELD_LENGTH: Final = 128
_MAX_MESSAGE_LENGTH: Final = 1024

_EVENTS_V1_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_STORED_NAMES: Final = {new: old for old, new in _EVENTS_V1_NAMES.items()}

_ALWAYS_WRITTEN: Final[Mapping[str, object]] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""Fields that Go writes even if empty, with their empty values."""


class EventsV1Converter:
    """The converter between stored events and ``events.k8s.io/v1``."""

    def from_storage(self, obj: Object) -> Object:
        """Return a stored event with the field names of ``events.k8s.io/v1``."""
        shown = {_EVENTS_V1_NAMES.get(name, name): value for name, value in obj.items() if value not in ("", 0)}
        return shown | {"apiVersion": "events.k8s.io/v1", "kind": "Event"}

    def to_storage(self, obj: Object) -> Object:
        """Return an ``events.k8s.io/v1`` event with the field names of ``v1``, which is stored."""
        return {_STORED_NAMES.get(name, name): value for name, value in obj.items()} | {
            "apiVersion": "v1",
            "kind": "Event",
        }


class EventStrategy(NoStatusStrategy):
    """The strategy of ``v1`` events."""

    reporter_field = "reportingComponent"

    def default(self, obj: Object) -> None:
        """Set the fields that Go writes even if empty."""
        for name, empty in _ALWAYS_WRITTEN.items():
            if obj.get(name) is None:
                obj[name] = {} if empty == {} else empty
        obj.setdefault("involvedObject", {})

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of the namespace and, for an event with ``eventTime``, of the reporter fields."""
        namespace = obj["metadata"].get("namespace", "")
        involved_namespace = obj["involvedObject"].get("namespace", "")
        causes = []
        if obj["eventTime"] is None:
            allowed = (involved_namespace,) if involved_namespace else ("", "default")
        else:
            allowed = (namespace,) if involved_namespace else ("default", "kube-system")
        if namespace not in allowed:
            causes.append(
                field_errors.invalid("involvedObject.namespace", involved_namespace, "does not match event.namespace")
            )
        if obj["eventTime"] is not None:
            causes += self._validate_reporter(obj)
        return causes

    def _validate_reporter(self, obj: Object) -> list[FieldError]:
        reporter = obj["reportingComponent"]
        causes = [] if reporter else [field_errors.required(self.reporter_field)]
        causes += field_errors.invalid_for_each(self.reporter_field, reporter, name_validation.qualified_name(reporter))
        for name in ("reportingInstance", "action", "reason"):
            if not obj.get(name):
                causes.append(field_errors.required(name))
            elif len(obj[name].encode()) > _MAX_FIELD_LENGTH:
                causes.append(field_errors.invalid(name, "", f"can have at most {_MAX_FIELD_LENGTH} characters"))
        if len(obj.get("message", "").encode()) > _MAX_MESSAGE_LENGTH:
            causes.append(field_errors.invalid("message", "", f"can have at most {_MAX_MESSAGE_LENGTH} characters"))
        return causes

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        involved_object = obj.get("involvedObject") or {}
        reporter = obj.get("reportingComponent") or ""
        parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        return {f"involvedObject.{part}": involved_object.get(part, "") for part in parts} | {
            "reason": obj.get("reason", ""),
            "reportingComponent": reporter,
            "source": (obj.get("source") or {}).get("component") or reporter,
            "type": obj.get("type", ""),
        }

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get events``."""
        involved_object, source, series = (obj.get(part) or {} for part in ("involvedObject", "source", "series"))
        first = columns.elapsed(obj.get("firstTimestamp") or obj.get("eventTime"), now)
        last = columns.elapsed(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
        count = obj.get("count") or 1
        if series:
            last, count = columns.elapsed(series.get("lastObservedTime"), now), series.get("count", 0)
        component = source.get("component") or obj.get("reportingComponent") or ""
        instance = source.get("host") or obj.get("reportingInstance") or ""
        return {
            "Last Seen": last,
            "Type": obj.get("type", ""),
            "Reason": obj.get("reason", ""),
            "Object": "/".join(
                part for part in (involved_object.get("kind", "").lower(), involved_object.get("name")) if part
            ),
            "Subobject": involved_object.get("fieldPath", ""),
            "Source": f"{component}, {instance}" if instance else component,
            "Message": obj.get("message", "").strip(),
            "First Seen": first,
            "Count": count,
        }


class EventsV1Strategy(EventStrategy):
    """The strategy of ``events.k8s.io/v1`` events: all fields required, most fields immutable."""

    reporter_field = "reportingController"

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support, under their names of ``events.k8s.io/v1``."""
        fields = super().selectable_fields(obj)
        about = {
            name.replace("involvedObject", "regarding"): value
            for name, value in fields.items()
            if name.startswith("involvedObject.")
        }
        return about | {
            "reason": fields["reason"],
            "reportingController": fields["reportingComponent"],
            "type": fields["type"],
        }

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of a new event, which must not use deprecated fields."""
        causes = super().validate(obj) + _validate_series(obj)
        if obj["eventTime"] is None:
            causes.append(field_errors.required("eventTime"))
        if obj.get("type") not in ("Normal", "Warning"):
            causes.append(field_errors.invalid("type", "", f"has invalid value: {obj.get('type', '')}"))
        return causes + [
            field_errors.invalid(name, "", "needs to be unset")
            for name in ("firstTimestamp", "lastTimestamp", "count", "source")
            if obj.get(name)
        ]

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update, which may change only series and metadata."""
        causes = EventStrategy.validate(self, new)
        if new.get("series") != old.get("series"):
            causes += _validate_series(new)
        for name in _IMMUTABLE_FIELDS:
            path = self.reporter_field if name == "reportingComponent" else name
            causes += field_errors.validate_immutable(path, new.get(name), old.get(name))
        return causes


def _validate_series(obj: Object) -> list[FieldError]:
    series = obj.get("series")
    if series is None:
        return []
    causes = []
    if series.get("count", 0) < 2:  # noqa: PLR2004 - a series of one is none
        causes.append(field_errors.invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(field_errors.required("series.lastObservedTime"))
    return causes


_IMMUTABLE_FIELDS: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)

_COLUMNS: Final = (
    *columns.strings("Last Seen", "Type", "Reason", "Object"),
    *columns.wide("Subobject", "Source"),
    *columns.strings("Message"),
    *columns.wide("First Seen", "Count"),
    PrinterColumn(name="Name", format="name", path=".metadata.name", priority=columns.WIDE),
)

KINDS: Final = (
    Kind(
        plural="events",
        name="Event",
        short_names=("ev",),
        subresources=(),
        has_generation=False,
        strategy=EventStrategy(),
        columns=_COLUMNS,
    ),
    Kind(
        group="events.k8s.io",
        plural="events",
        name="Event",
        short_names=("ev",),
        subresources=(),
        has_generation=False,
        strategy=EventsV1Strategy(),
        columns=_COLUMNS,
        storage_collection="events",
        converter=EventsV1Converter(),
    ),
)
