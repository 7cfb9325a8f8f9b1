"""What people write into a Reservation, and what its status says; frozen, used by the engine as it is.

Strict in ``spec``, which people write: a typo must not silently mean the default, so unknown fields are refused by
name. Tolerant where machines write (``metadata``, ``status``), and where a mistake must be answered by a condition on
the object instead of by not reading it at all: a label selector that cannot be read, an owner that says nothing. Such
are refused at admission (`definition`), yet may have got into the cluster before.

``spec.template`` is kept as plain data: it goes into a pod as it is, unknown fields included. A null is an absent
field everywhere, as it is for Go.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import (
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

from dra.api.parameters.opaque import validation_message
from dra.api.reservations import durations

GROUP: Final = "scheduling.koordinator.sh"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "Reservation"
PLURAL: Final = "reservations"


class MalformedReservationError(ValueError):
    """An object that is no Reservation; the text names it and the paths of the fields that are wrong."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
        use_attribute_docstrings=True,  # kubectl explain shows them
        defer_build=True,  # most who import this read no Reservation: building takes 40 ms
    )

    @model_validator(mode="before")
    @classmethod
    def _absent(cls, given: object) -> object:
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else given


class _LenientModel(_StrictModel):
    """Written by machines: fields that a newer version has are nothing to us."""

    model_config = ConfigDict(extra="ignore")


def _parse_duration(given: object) -> object:
    if isinstance(given, int) and not isinstance(given, bool):
        raise ValueError("a number is no duration; write it as in: 24h, 90m, 1h30m, or 0s")  # noqa: TRY004 - pydantic's
    return durations.parse_duration(given) if isinstance(given, str) else given


def _parse_timestamp(given: object) -> object:
    if isinstance(given, str):
        text = given[:64]
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise ValueError(f"{text!r} is no time; write it as in: 2026-11-21T15:00:00Z") from None
    if isinstance(given, datetime) and given.tzinfo is None:
        raise ValueError("has no time zone; write it as in: 2026-11-21T15:00:00Z")
    return given.astimezone(UTC) if isinstance(given, datetime) else given


Duration = Annotated[
    StrictInt,
    BeforeValidator(_parse_duration),
    PlainSerializer(durations.format_duration, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": 64}),
]
"""Nanoseconds; a text in documents."""

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


class AllocatePolicy(StrEnum):
    """Whether an owner may take more than is reserved; absent is `DEFAULT`."""

    DEFAULT = ""
    """Like Aligned, but not on one node with the others."""

    ALIGNED = "Aligned"
    """First what is reserved, the rest from the node."""

    RESTRICTED = "Restricted"
    """Only what is reserved."""


class PreAllocationMode(StrEnum):
    """Which running pods a reservation may be put over."""

    DEFAULT = "Default"
    """Those that match its owners."""

    CLUSTER = "Cluster"
    """Those that are labelled for it."""


class TaintEffect(StrEnum):
    """What a taint does; none of them ends a pod here."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class ReservationPhase(StrEnum):
    """Where a reservation is in its life."""

    PENDING = "Pending"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    WAITING = "Waiting"
    """Known to the schema, never set."""


class ObjectReference(_LenientModel):
    """An object; of an owner, what is empty is not compared."""

    kind: StrictStr = ""
    namespace: StrictStr = ""
    name: StrictStr = ""
    uid: StrictStr = ""
    api_version: StrictStr = ""
    resource_version: StrictStr = ""
    field_path: StrictStr = ""


class ReservationControllerReference(_StrictModel):
    """The workload whose pods these are; it may not exist yet, so neither uid nor apiVersion is needed."""

    api_version: StrictStr = ""
    kind: StrictStr = ""
    name: StrictStr = ""
    uid: StrictStr = ""
    controller: StrictBool | None = None
    block_owner_deletion: StrictBool | None = None
    namespace: StrictStr = ""


class LabelSelectorRequirement(_StrictModel):
    """``matchExpressions[]``."""

    key: StrictStr = ""
    operator: StrictStr = ""
    values: tuple[StrictStr, ...] = ()


class LabelSelector(_StrictModel):
    """Labels that a pod must have; of all namespaces."""

    match_labels: Labels = {}
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], Field(json_schema_extra={"maxItems": 64})] = ()


class ReservationOwner(_StrictModel):
    """One description of pods that may use the reservation: all that it says must hold."""

    object: ObjectReference | None = None
    controller: ReservationControllerReference | None = None
    label_selector: LabelSelector | None = None


class ReservationTaint(_StrictModel):
    """Repels pods that do not tolerate it in their reservation affinity."""

    key: StrictStr
    value: StrictStr = ""
    effect: TaintEffect
    time_added: Timestamp | None = None

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


class PreAllocationPolicy(_StrictModel):
    """How running pods are taken in."""

    mode: PreAllocationMode = PreAllocationMode.DEFAULT
    enable_multiple: StrictBool = False


class ReservationSpec(_StrictModel):
    """What is reserved, for whom, until when."""

    template: FreeFormObject
    """A pod template: its requests are what is reserved, its constraints say where."""

    owners: Annotated[tuple[ReservationOwner, ...], Field(json_schema_extra={"minItems": 1, "maxItems": 1024})]
    """For whom; one that matches is enough."""

    ttl: Duration | None = None
    """How long after its creation it ends; 0s: never. 24h if expires is not given, either."""

    expires: Timestamp | None = None
    """When it ends; if ttl is given, too, the earlier counts."""

    pre_allocation: StrictBool = False
    """Whether it may be placed over running pods, whose place it takes when they end."""

    pre_allocation_policy: PreAllocationPolicy | None = None
    allocate_once: StrictBool = True
    """Whether the first owner ends it."""

    allocate_policy: Annotated[
        AllocatePolicy, WithJsonSchema({"type": "string", "enum": ["Aligned", "Restricted"]})
    ] = AllocatePolicy.DEFAULT
    """What owners may take; absent: what is reserved first, then of the node."""

    unschedulable: StrictBool = False
    """Whether new owners are kept away."""

    taints: Annotated[tuple[ReservationTaint, ...], Field(json_schema_extra={"maxItems": 64})] = ()


class ReservationCondition(_LenientModel):
    """``conditions[]``."""

    type: StrictStr
    status: StrictStr
    reason: StrictStr = ""
    message: StrictStr = ""
    last_probe_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None


class ReservationStatus(_LenientModel):
    """What became of it."""

    phase: Annotated[ReservationPhase, BeforeValidator(lambda given: given or ReservationPhase.PENDING)] = (
        ReservationPhase.PENDING
    )
    conditions: tuple[ReservationCondition, ...] = ()
    current_owners: tuple[ObjectReference, ...] = ()
    """The pods that use it."""

    node_name: StrictStr = ""
    allocatable: ResourceQuantities = {}
    """What is held."""

    allocated: ResourceQuantities = {}
    """What its owners have of that; they may have more than is held."""

    def condition(self, kind: str) -> ReservationCondition | None:
        """Return the condition of that type, if any."""
        return next((each for each in self.conditions if each.type == kind), None)


class ReservationMetadata(_LenientModel):
    """``metadata``."""

    name: StrictStr = ""
    uid: StrictStr = ""
    resource_version: StrictStr = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: Labels = {}
    annotations: Labels = {}


class Reservation(_LenientModel):
    """A reservation."""

    metadata: ReservationMetadata = ReservationMetadata()
    spec: ReservationSpec
    status: ReservationStatus = ReservationStatus()


def parse_reservation(content: Mapping[str, Any]) -> Reservation:
    """Return an object of the API. Raises MalformedReservationError."""
    try:
        return Reservation.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        metadata = content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        text = f"reservation {name or '?'}: {validation_message(error, Reservation, root='')}"
        raise MalformedReservationError(text) from error


def to_document(part: BaseModel) -> dict[str, Any]:
    """Return a part of an object as the API has it: what is empty or the default is left out."""
    return part.model_dump(mode="json", by_alias=True, exclude_defaults=True)
