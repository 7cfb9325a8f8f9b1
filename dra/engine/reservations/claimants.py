"""What of a pod decides about reservations, read once: what it takes, who it is, what it asks for in annotations.

An annotation that cannot be read refuses the pod by name: the pod meant something, and guessing may give it what is
held for somebody else.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from dra.engine.reservations import amounts, marks, ports
from dra.engine.reservations.amounts import Amounts
from dra.engine.reservations.ports import NO_PORTS, Ports
from dra.model.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.placement import PlacedPod, Toleration

T = TypeVar("T")


class MalformedAnnotationError(ValueError):
    """An annotation that cannot be used; the text begins with its name."""


class Affinity(Struct, frozen=True):
    """The pod must run in a reservation, and this is said about which."""

    name: str = ""
    """This very one; then taints, cordon and the selectors do not count."""
    terms: NodeSelector | None = None
    selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class Claimant(Struct, frozen=True):
    """A pod that wants room, or has it."""

    key: Key
    uid: Uid
    amounts: Amounts
    """What it takes, one of ``pods`` included."""
    labels: Mapping[str, str] = {}
    owners: tuple[OwnerReference, ...] = ()
    priority: int = 0
    affinity: Affinity | None = None
    """None: reservations are welcome, yet not required."""
    exact: tuple[str, ...] = ()
    ignores: bool = False
    """Whether it may use what is reserved for others."""
    reservation: Uid = Uid("")
    """The one it was let into, as its annotation says."""
    ports: Ports = NO_PORTS
    """The host ports that it uses."""
    pre_allocatable: int = 0
    """Which of several pods a reservation is placed over first: the greatest."""

    @property
    def protected(self) -> bool:
        """Whether it must not be a victim."""
        return self.labels.get(marks.DISABLE_PREEMPTIBLE) == marks.TRUE

    @classmethod
    def of(cls, pod: PlacedPod) -> "Claimant":
        """Read a pod. Raises MalformedAnnotationError."""
        return cls.from_metadata(
            pod.metadata, amounts=amounts.of_pod(pod), ports=ports.of_pod(pod), priority=pod.spec.priority
        )

    @classmethod
    def from_metadata(
        cls, meta: ObjectMeta, *, amounts: Amounts, ports: Ports = NO_PORTS, priority: int = 0
    ) -> "Claimant":
        """Read a pod's metadata. Raises MalformedAnnotationError."""
        labels = meta.labels or {}
        return cls(
            key=meta.key,
            uid=meta.uid,
            amounts=amounts,
            ports=ports,
            labels=labels,
            owners=tuple(meta.owner_references or ()),
            priority=priority,
            affinity=_affinity(meta.annotation(marks.AFFINITY)),
            exact=_exact(meta.annotation(marks.EXACT_MATCH)),
            ignores=labels.get(marks.IGNORED) == marks.TRUE,
            reservation=allocated(meta.annotation(marks.ALLOCATED)),
            pre_allocatable=marks.number(meta.annotation(marks.PRE_ALLOCATABLE_PRIORITY)),
        )


class _Strict(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Required(_Strict, frozen=True):
    reservation_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class _Affinity(_Strict, frozen=True):
    name: str = ""
    required_during_scheduling_ignored_during_execution: _Required | None = None
    reservation_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class _Exact(_Strict, frozen=True):
    resource_names: list[str] | None = None


class _Allocated(Struct, frozen=True):
    name: str = ""
    uid: Uid = Uid("")


def decoded(name: str, text: str, kind: type[T]) -> T:
    """Return what an annotation says. Raises MalformedAnnotationError with the path of the field."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedAnnotationError(f"annotation {name}: {error}") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedAnnotationError(f"annotation {name}: is no JSON: {error}") from error
    except RecursionError as error:
        raise MalformedAnnotationError(f"annotation {name}: is nested too deeply") from error


def allocated(text: str | None) -> Uid:
    """Return the reservation that a pod is in; none if the annotation cannot be read: nobody is let in by a guess."""
    if text is None:
        return Uid("")
    try:
        return decoded(marks.ALLOCATED, text, _Allocated).uid
    except MalformedAnnotationError:
        return Uid("")


def allocated_name(text: str | None) -> str:
    """Return the name of the reservation that a pod came by; empty if the annotation cannot be read."""
    try:
        return decoded(marks.ALLOCATED, text, _Allocated).name if text is not None else ""
    except MalformedAnnotationError:
        return ""


def _exact(text: str | None) -> tuple[str, ...]:
    return tuple(decoded(marks.EXACT_MATCH, text, _Exact).resource_names or ()) if text is not None else ()


def _affinity(text: str | None) -> Affinity | None:
    if text is None:
        return None
    given = decoded(marks.AFFINITY, text, _Affinity)
    required = given.required_during_scheduling_ignored_during_execution
    terms = None
    if required is not None:
        for index, term in enumerate(required.reservation_selector_terms):
            for kind, each in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
                for place, requirement in enumerate(each or ()):
                    if wrong := _wrong(requirement, field=kind == "matchFields"):
                        where = f"requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms[{index}]"
                        raise MalformedAnnotationError(f"annotation {marks.AFFINITY}: {where}.{kind}[{place}]: {wrong}")
        terms = NodeSelector(node_selector_terms=list(required.reservation_selector_terms))
    return Affinity(
        name=given.name,
        terms=terms,
        selector=given.reservation_selector or {},
        tolerations=tuple(given.tolerations or ()),
    )


_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _wrong(requirement: NodeSelectorRequirement, *, field: bool) -> str:
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
