"""The pod as reservations see it, read once: its amounts, host ports, labels, owner references and annotations.

An annotation that cannot be parsed rejects the pod, and the error names the annotation: a guess could give the pod what
is held for other pods.
"""

from collections.abc import Mapping
from typing import Final

from dra.api.reservations import well_known
from dra.api.reservations.well_known import MalformedAnnotationError, decode_annotation
from dra.engine.reservations import amounts, ports
from dra.engine.reservations.amounts import NanoAmounts
from dra.engine.reservations.ports import NO_HOST_PORTS, HostPorts
from dra.model.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.scheduling import SchedulerPod, Toleration


class ReservationAffinity(Struct, frozen=True):
    """The reservation affinity of a pod: the pod must run in a reservation that matches."""

    name: str = ""
    """Name of the one reservation that matches; then taints, ``unschedulable`` and selectors do not count."""
    terms: NodeSelector | None = None
    selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class PodInfo(Struct, frozen=True):
    """A pod that requests capacity or has it, with all that reservations need to know."""

    key: Key
    uid: Uid
    amounts: NanoAmounts
    """Requests of the pod, one of ``pods`` included."""
    labels: Mapping[str, str] = {}
    owners: tuple[OwnerReference, ...] = ()
    priority: int = 0
    affinity: ReservationAffinity | None = None
    """None: the pod may use a reservation but requires none."""
    exact: tuple[str, ...] = ()
    ignores: bool = False
    """Whether the pod may use what is reserved for others."""
    reservation: Uid = Uid("")
    """The reservation that annotation ``reservation-allocated`` names; empty if there is none."""
    ports: HostPorts = NO_HOST_PORTS
    """Host ports that the pod uses."""
    pre_allocatable: int = 0
    """Priority among pods that a reservation can be placed over; the greatest comes first."""

    @property
    def protected(self) -> bool:
        """Return whether the pod must not be a victim of preemption."""
        return self.labels.get(well_known.LABEL_DISABLE_PREEMPTIBLE) == well_known.TRUE

    @classmethod
    def of(cls, pod: SchedulerPod) -> "PodInfo":
        """Return the PodInfo of a pod. Raises MalformedAnnotationError."""
        return cls.from_metadata(
            pod.metadata, amounts=amounts.pod_amounts(pod), ports=ports.pod_host_ports(pod), priority=pod.spec.priority
        )

    @classmethod
    def from_metadata(
        cls, meta: ObjectMeta, *, amounts: NanoAmounts, ports: HostPorts = NO_HOST_PORTS, priority: int = 0
    ) -> "PodInfo":
        """Return the PodInfo of a pod's metadata. Raises MalformedAnnotationError."""
        labels = meta.labels or {}
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=amounts,
            ports=ports,
            labels=labels,
            owners=tuple(meta.owner_references or ()),
            priority=priority,
            affinity=_parse_affinity(meta.annotation(well_known.ANNOTATION_RESERVATION_AFFINITY)),
            exact=_parse_exact_match(meta.annotation(well_known.ANNOTATION_EXACT_MATCH)),
            ignores=labels.get(well_known.LABEL_RESERVATION_IGNORED) == well_known.TRUE,
            reservation=allocated_reservation_uid(meta.annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED)),
            pre_allocatable=well_known.parse_integer(meta.annotation(well_known.ANNOTATION_PRE_ALLOCATABLE_PRIORITY)),
        )


class _StrictStruct(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _RequiredTerms(_StrictStruct, frozen=True):
    reservation_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class _AffinityAnnotation(_StrictStruct, frozen=True):
    name: str = ""
    required_during_scheduling_ignored_during_execution: _RequiredTerms | None = None
    reservation_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class _ExactMatchAnnotation(_StrictStruct, frozen=True):
    resource_names: list[str] | None = None


class _AllocatedAnnotation(Struct, frozen=True):
    name: str = ""
    uid: Uid = Uid("")


def allocated_reservation_uid(text: str | None) -> Uid:
    """Return the uid of a pod's reservation; empty if the annotation cannot be parsed: a guess admits no pod."""
    if text is None:
        return Uid("")
    try:
        return decode_annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED, text, _AllocatedAnnotation).uid
    except MalformedAnnotationError:
        return Uid("")


def allocated_reservation_name(text: str | None) -> str:
    """Return the name of a pod's reservation; empty if the annotation cannot be parsed."""
    try:
        return (
            decode_annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED, text, _AllocatedAnnotation).name
            if text is not None
            else ""
        )
    except MalformedAnnotationError:
        return ""


def _parse_exact_match(text: str | None) -> tuple[str, ...]:
    return (
        tuple(decode_annotation(well_known.ANNOTATION_EXACT_MATCH, text, _ExactMatchAnnotation).resource_names or ())
        if text is not None
        else ()
    )


def _parse_affinity(text: str | None) -> ReservationAffinity | None:
    if text is None:
        return None
    given = decode_annotation(well_known.ANNOTATION_RESERVATION_AFFINITY, text, _AffinityAnnotation)
    required = given.required_during_scheduling_ignored_during_execution
    terms = None
    if required is not None:
        for index, term in enumerate(required.reservation_selector_terms):
            for kind, each in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
                for place, requirement in enumerate(each or ()):
                    if wrong := _requirement_error(requirement, field=kind == "matchFields"):
                        where = f"requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms[{index}]"
                        raise MalformedAnnotationError(
                            f"annotation {well_known.ANNOTATION_RESERVATION_AFFINITY}: {where}.{kind}[{place}]: {wrong}"
                        )
        terms = NodeSelector(node_selector_terms=list(required.reservation_selector_terms))
    return ReservationAffinity(
        name=given.name,
        terms=terms,
        selector=given.reservation_selector or {},
        tolerations=tuple(given.tolerations or ()),
    )


_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _requirement_error(requirement: NodeSelectorRequirement, *, field: bool) -> str:
    values = requirement.values or []
    if not requirement.key:
        return "key: is missing"
    if field and requirement.key != "metadata.name":
        return f"key: {requirement.key!r} is no field that can be selected by; metadata.name is"
    match requirement.operator:
        case "In" | "NotIn":
            wrong = "" if values else "In and NotIn need values"
        case "Exists" | "DoesNotExist":
            wrong = "Exists and DoesNotExist take no values" if values else ""
        case "Gt" | "Lt":
            whole = len(values) == 1 and values[0].lstrip("-").isdecimal()
            wrong = "" if whole else "Gt and Lt need one whole number"
        case _:
            return f"operator: {requirement.operator!r} is none of {', '.join(_OPERATORS)}"
    return f"values: {wrong}" if wrong else ""
