"""Models and field types that the kinds in this package share: strict and lenient models, metadata, conditions, times.

A null counts as an absent field everywhere, as in Go.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

from dra.api import durations
from dra.model.meta import Key


class StrictModel(BaseModel):
    """The base of what users write: frozen, camelCase, unknown fields rejected by name, a null counts as absent."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
        use_attribute_docstrings=True,  # for kubectl explain
        defer_build=True,  # most importers read no Reservation, and building takes 40 ms
    )

    @model_validator(mode="before")
    @classmethod
    def _absent(cls, given: object) -> object:
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else given


class LenientModel(StrictModel):
    """A model of what machines write: unknown fields, as of newer versions, are ignored."""

    model_config = ConfigDict(extra="ignore")


def _parse_duration(given: object) -> object:
    if isinstance(given, int) and not isinstance(given, bool):
        raise ValueError("a number is not a duration; add a unit, for example 24h, 90m, 1h30m or 0s")  # noqa: TRY004 - pydantic's
    return durations.parse_duration(given) if isinstance(given, str) else given


def _parse_timestamp(given: object) -> object:
    if isinstance(given, str):
        text = given[:64]
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise ValueError(f"{text!r} is not a time, for example 2026-11-21T15:00:00Z") from None
    if isinstance(given, datetime) and given.tzinfo is None:
        raise ValueError("has no time zone; write, for example, 2026-11-21T15:00:00Z")
    return given.astimezone(UTC) if isinstance(given, datetime) else given


Duration = Annotated[
    StrictInt,
    BeforeValidator(_parse_duration),
    PlainSerializer(durations.format_duration, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": 64}),
]
"""Nanoseconds; in documents a text such as 1h30m."""

Timestamp = Annotated[
    datetime,
    BeforeValidator(_parse_timestamp),
    PlainSerializer(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ"), return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]

Quantity = Annotated[StrictStr | StrictInt, WithJsonSchema({"x-kubernetes-int-or-string": True})]
ResourceQuantities = Mapping[StrictStr, Quantity]
Labels = Mapping[StrictStr, StrictStr]
FreeFormObject = Annotated[
    Mapping[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class ObjectReference(LenientModel):
    """A reference to an object; in an owner, empty fields are not compared."""

    kind: StrictStr = ""
    namespace: StrictStr = ""
    name: StrictStr = ""
    uid: StrictStr = ""
    api_version: StrictStr = ""
    resource_version: StrictStr = ""
    field_path: StrictStr = ""

    @property
    def key(self) -> Key:
        """The namespace and the name."""
        return (self.namespace, self.name)


class OwnerReference(LenientModel):
    """The fields of ``metadata.ownerReferences[]`` that are read."""

    api_version: StrictStr = ""
    kind: StrictStr = ""
    uid: StrictStr = ""
    controller: StrictBool | None = None


class ObjectMetadata(LenientModel):
    """The fields of ``metadata`` that are read."""

    name: StrictStr = ""
    uid: StrictStr = ""
    resource_version: StrictStr = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: Labels = {}
    annotations: Labels = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that is marked as the controller, of which there is at most one; else None."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Condition(LenientModel):
    """A condition in the status of an object (``conditions[]``)."""

    type: StrictStr
    status: StrictStr
    reason: StrictStr = ""
    message: StrictStr = ""
    last_probe_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None


def to_document(part: BaseModel) -> dict[str, Any]:
    """Return a part of an object as in the API, without empty fields and defaults."""
    return part.model_dump(mode="json", by_alias=True, exclude_defaults=True)
