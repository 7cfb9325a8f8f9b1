"""The pod as reservations see it, read once: its amounts, host ports, labels, owner references and annotations.

An annotation that cannot be parsed rejects the pod, and the error names the annotation: a guess could give the pod what
is held for other pods.

kube-scheduler checks host ports of pods itself (plugin NodePorts). It does not see the ports that a reservation holds
once the placeholder is deleted, so those are checked here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from dra.api.reservations import well_known
from dra.api.reservations.well_known import MalformedAnnotationError, decode_annotation
from dra.engine.kube_scheduler import pod_requests
from dra.engine.kube_scheduler.host_ports import (
    BIND_ALL_HOST_IP,
    NO_HOST_PORTS,
    TCP,
    HostPort,
    HostPorts,
    pod_host_ports,
)
from dra.engine.reservations import gpu_shares
from dra.engine.reservations.gpu_shares import NO_ENTRIES, GpuEntry
from dra.model.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.quantities import Amounts
from dra.model.scheduling import SIDECAR, SchedulerPod, Toleration

Claims: TypeAlias = frozenset[tuple[str, str, str]]
"""Entries of ``resourceClaims``: namespace, field that names claim or template, and name."""
NO_CLAIMS: Final[Claims] = frozenset()
_CLAIM_NAME: Final = "resourceClaimName"
_CLAIM_TEMPLATE_NAME: Final = "resourceClaimTemplateName"


def template_host_ports(template: Mapping[str, Any]) -> HostPorts:
    """Return the host ports of a template; values that no Pod could have are ignored.

    With ``hostNetwork`` each container port is a host port: for pods the API server sets that default.
    """
    spec = template.get("spec")
    return frozenset(_template_ports(spec)) if isinstance(spec, Mapping) else NO_HOST_PORTS


def pod_claims(pod: SchedulerPod) -> Claims:
    """Return the claims that a pod requests, by name or by template."""
    entries = pod.spec.resource_claims
    if not entries:
        return NO_CLAIMS
    return _claims(
        pod.metadata.namespace,
        ((entry.resource_claim_name, entry.resource_claim_template_name) for entry in entries),
    )


def template_claims(template: Mapping[str, Any], namespace: str) -> Claims:
    """Return the claims that a template in a namespace requests; values that no Pod could have are ignored."""
    spec = template.get("spec")
    entries = _mappings(spec.get("resourceClaims")) if isinstance(spec, Mapping) else ()
    return _claims(namespace, ((entry.get(_CLAIM_NAME), entry.get(_CLAIM_TEMPLATE_NAME)) for entry in entries))


def container_ports(ports: HostPorts) -> list[dict[str, Any]]:
    """Return host ports as ``ports`` of a container."""
    return [
        {
            "containerPort": port.number,
            "hostPort": port.number,
            "protocol": port.protocol,
            **({} if port.address == BIND_ALL_HOST_IP else {"hostIP": port.address}),
        }
        for port in sorted(ports)
    ]


def _claims(namespace: str, entries: Iterable[tuple[object, object]]) -> Claims:
    return frozenset(
        (namespace, field, name)
        for entry in entries
        for field, name in zip((_CLAIM_NAME, _CLAIM_TEMPLATE_NAME), entry, strict=True)
        if isinstance(name, str) and name
    )


def _template_ports(spec: Mapping[str, Any]) -> Iterator[HostPort]:
    on_host = spec.get("hostNetwork") is True
    for container in (*_mappings(spec.get("containers")), *_sidecars(spec)):
        for port in _mappings(container.get("ports")):
            number = port.get("hostPort") or (port.get("containerPort") if on_host else None)
            if isinstance(number, int) and not isinstance(number, bool):
                yield HostPort(number, str(port.get("protocol") or TCP), str(port.get("hostIP") or BIND_ALL_HOST_IP))


def _sidecars(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (
        container for container in _mappings(spec.get("initContainers")) if container.get("restartPolicy") == SIDECAR
    )


def _mappings(given: object) -> Iterable[Mapping[str, Any]]:
    return [item for item in given if isinstance(item, Mapping)] if isinstance(given, list) else ()


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
    amounts: Amounts
    """Requests of the pod, one of ``pods`` included."""
    labels: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    priority: int = 0
    start_time: str = ""
    """Time that orders pods of equal priority; empty: the pod has not started."""
    affinity: ReservationAffinity | None = None
    """None: the pod may use a reservation but requires none."""
    exact_match_resources: tuple[str, ...] = ()
    ignores_reservations: bool = False
    """Whether the pod may use what is reserved for others."""
    allocated_reservation: Uid = Uid("")
    """The reservation that annotation ``reservation-allocated`` names; empty if there is none."""
    host_ports: HostPorts = NO_HOST_PORTS
    """Host ports that the pod uses."""
    claims: Claims = NO_CLAIMS
    """Claims that the pod requests."""
    gpu_entries: frozenset[GpuEntry] = NO_ENTRIES
    """Entries for shares of GPUs."""
    pre_allocatable_priority: int = 0
    """Priority among pods that a reservation can be placed over; the greatest comes first."""

    @property
    def is_protected(self) -> bool:
        """Return whether the pod must not be a victim of preemption."""
        return self.labels.get(well_known.LABEL_DISABLE_PREEMPTIBLE) == well_known.TRUE

    @classmethod
    def from_pod(cls, pod: SchedulerPod) -> "PodInfo":
        """Return the PodInfo of a pod. Raises MalformedAnnotationError."""
        return cls.from_metadata(
            pod.metadata,
            amounts=pod_requests.pod_requests(pod),
            host_ports=pod_host_ports(pod),
            claims=pod_claims(pod),
            gpu_entries=gpu_shares.pod_entries(pod),
            priority=pod.spec.priority,
            start_time=pod.status.start_time or "",
        )

    @classmethod
    def from_metadata(  # noqa: PLR0913 - keyword-only: what a pod requests, and its rank
        cls,
        meta: ObjectMeta,
        *,
        amounts: Amounts,
        host_ports: HostPorts = NO_HOST_PORTS,
        claims: Claims = NO_CLAIMS,
        gpu_entries: frozenset[GpuEntry] = NO_ENTRIES,
        priority: int = 0,
        start_time: str = "",
    ) -> "PodInfo":
        """Return the PodInfo of a pod's metadata. Raises MalformedAnnotationError."""
        labels = meta.labels or {}
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=amounts,
            host_ports=host_ports,
            claims=claims,
            gpu_entries=gpu_entries,
            labels=labels,
            owner_references=tuple(meta.owner_references or ()),
            priority=priority,
            start_time=start_time,
            affinity=_parse_affinity(meta.annotation(well_known.ANNOTATION_RESERVATION_AFFINITY)),
            exact_match_resources=_parse_exact_match(meta.annotation(well_known.ANNOTATION_EXACT_MATCH)),
            ignores_reservations=ignores_reservations(labels),
            allocated_reservation=allocated_reservation_uid(meta),
            pre_allocatable_priority=well_known.parse_integer(
                meta.annotation(well_known.ANNOTATION_PRE_ALLOCATABLE_PRIORITY)
            ),
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


def ignores_reservations(labels: Mapping[str, str] | None) -> bool:
    """Return whether a pod with these labels may use what is reserved for others."""
    return (labels or {}).get(well_known.LABEL_RESERVATION_IGNORED) == well_known.TRUE


def allocated_reservation_uid(meta: ObjectMeta) -> Uid:
    """Return the uid of a pod's reservation; empty if the annotation cannot be parsed: a guess admits no pod."""
    return _allocated_reservation(meta).uid


def allocated_reservation_name(meta: ObjectMeta) -> str:
    """Return the name of a pod's reservation; empty if the annotation cannot be parsed."""
    return _allocated_reservation(meta).name


def _allocated_reservation(meta: ObjectMeta) -> _AllocatedAnnotation:
    text = meta.annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED)
    if text is None:
        return _AllocatedAnnotation()
    try:
        return decode_annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED, text, _AllocatedAnnotation)
    except MalformedAnnotationError:
        return _AllocatedAnnotation()


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
            for kind, requirements in (
                ("matchExpressions", term.match_expressions),
                ("matchFields", term.match_fields),
            ):
                for place, requirement in enumerate(requirements or ()):
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
        return f"key: {requirement.key!r} is not a selectable field; use metadata.name"
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
