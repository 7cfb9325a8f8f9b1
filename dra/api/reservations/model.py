"""The Reservation API as pydantic models: spec, status and the metadata that is read; frozen, used by the engine as is.

Strict in ``spec``, which users write: a typo must not silently mean the default, so unknown fields are rejected by
name. Lenient in ``metadata`` and ``status``, which machines write, and wherever an error must be reported in a
condition instead of making the object unreadable: an invalid label selector, an empty owner. Admission rejects such
objects (`crd`), but they may have been created before.

``spec.template`` is kept as plain data, unknown fields included: parts of it are copied into a pod as they are. A null
counts as an absent field everywhere, as in Go.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, StrictBool, StrictStr, WithJsonSchema

from dra.api.api_objects import parse_object
from dra.api.object_fields import (
    Condition,
    Duration,
    FreeFormObject,
    Labels,
    LenientModel,
    ObjectMetadata,
    ObjectReference,
    ResourceQuantities,
    StrictModel,
    Timestamp,
)

GROUP: Final = "scheduling.koordinator.sh"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "Reservation"
PLURAL: Final = "reservations"


class MalformedReservationError(ValueError):
    """An object is no valid Reservation; the text contains its name and the paths of the wrong fields."""


class AllocatePolicy(StrEnum):
    """The policy whether owner pods may take more than is reserved; absent means `DEFAULT`."""

    DEFAULT = ""
    """Like Aligned, but such a reservation shares no node with those of other policies."""

    ALIGNED = "Aligned"
    """Owner pods take what is reserved first, and the rest from the node."""

    RESTRICTED = "Restricted"
    """Owner pods take only what is reserved."""


class PreAllocationMode(StrEnum):
    """The running pods that a reservation may be placed over: owner pods (Default) or labelled pods (Cluster)."""

    DEFAULT = "Default"
    """Pods that match an owner."""

    CLUSTER = "Cluster"
    """Pods with label ``pod.koordinator.sh/is-pre-allocatable``."""


class TaintEffect(StrEnum):
    """The effect of a reservation's taint; no effect evicts running pods."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class ReservationPhase(StrEnum):
    """The phase of a reservation's lifecycle."""

    PENDING = "Pending"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    WAITING = "Waiting"
    """Part of the schema, never set."""


class ReservationControllerReference(StrictModel):
    """The workload whose pods are owners; it may not exist yet, so neither uid nor apiVersion is required."""

    api_version: StrictStr = ""
    kind: StrictStr = ""
    name: StrictStr = ""
    uid: StrictStr = ""
    controller: StrictBool | None = None
    block_owner_deletion: StrictBool | None = None
    namespace: StrictStr = ""


class LabelSelectorRequirement(StrictModel):
    """One requirement of a label selector (``matchExpressions[]``)."""

    key: StrictStr = ""
    operator: StrictStr = ""
    values: tuple[StrictStr, ...] = ()


class LabelSelector(StrictModel):
    """The labels that a pod must have; pods of all namespaces match."""

    match_labels: Labels = {}
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], Field(json_schema_extra={"maxItems": 64})] = ()


class ReservationOwner(StrictModel):
    """A description of pods that may use the reservation; all parts that are given must match."""

    object: ObjectReference | None = None
    controller: ReservationControllerReference | None = None
    label_selector: LabelSelector | None = None


class ReservationTaint(StrictModel):
    """Repels pods that do not tolerate the taint in their reservation affinity."""

    key: StrictStr
    value: StrictStr = ""
    effect: TaintEffect
    time_added: Timestamp | None = None

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


class PreAllocationPolicy(StrictModel):
    """The way in which a reservation is placed over running pods."""

    mode: PreAllocationMode = PreAllocationMode.DEFAULT
    enable_multiple: StrictBool = False


class ReservationSpec(StrictModel):
    """The capacity to reserve, its owners, and its lifetime."""

    template: FreeFormObject
    """A pod template: its requests are reserved, its constraints decide on which node."""

    owners: Annotated[tuple[ReservationOwner, ...], Field(json_schema_extra={"minItems": 1, "maxItems": 1024})]
    """Pods that may use the reservation; one matching owner is enough."""

    ttl: Duration | None = None
    """Lifetime after creation; 0s means unlimited. If neither ttl nor expires is given, 24h."""

    expires: Timestamp | None = None
    """Time at which the reservation ends; if ttl is given, too, the earlier counts."""

    pre_allocation: StrictBool = False
    """Whether the reservation may be placed over running pods, whose place it takes when they end."""

    pre_allocation_policy: PreAllocationPolicy | None = None
    allocate_once: StrictBool = True
    """Whether the first owner pod uses the reservation up."""

    allocate_policy: Annotated[
        AllocatePolicy, WithJsonSchema({"type": "string", "enum": ["Aligned", "Restricted"]})
    ] = AllocatePolicy.DEFAULT
    """What owner pods may take; if absent, what is reserved first, then from the node."""

    unschedulable: StrictBool = False
    """Whether new owner pods are kept away."""

    taints: Annotated[tuple[ReservationTaint, ...], Field(json_schema_extra={"maxItems": 64})] = ()


class ReservationCondition(Condition):
    """A condition of a reservation (``conditions[]``)."""


class ReservationStatus(LenientModel):
    """The observed state of a reservation."""

    phase: Annotated[ReservationPhase, BeforeValidator(lambda given: given or ReservationPhase.PENDING)] = (
        ReservationPhase.PENDING
    )
    conditions: tuple[ReservationCondition, ...] = ()
    current_owners: tuple[ObjectReference, ...] = ()
    """Pods that use the reservation."""

    node_name: StrictStr = ""
    allocatable: ResourceQuantities = {}
    """Amounts that are held."""

    allocated: ResourceQuantities = {}
    """Amounts that owner pods take of these resources; may exceed what is held."""

    def condition(self, kind: str) -> ReservationCondition | None:
        """Return the condition of the given type, if any."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


class Reservation(LenientModel):
    """A reservation of capacity on a node for pods that need not exist yet."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: ReservationSpec
    status: ReservationStatus = ReservationStatus()


def parse_reservation(content: Mapping[str, Any]) -> Reservation:
    """Return the Reservation in an object of the API. Raises MalformedReservationError."""
    return parse_object(Reservation, content, error_type=MalformedReservationError)
