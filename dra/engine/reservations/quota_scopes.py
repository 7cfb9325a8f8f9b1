"""The scopes of ResourceQuotas: which quotas count the pods of a Reservation's template.

As kube-apiserver's evaluator of pods (pkg/quota/v1/evaluator/core/pods.go): a quota counts a pod if all of its scopes
and all requirements of its scope selector match. The template is read as it stands: the PriorityClass that admission
gives to pods which name none is not known here.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from dra.model import quantities
from dra.model.meta import Struct
from dra.model.quotas import ResourceQuota, ScopeRequirement

PRIORITY_CLASS: Final = "PriorityClass"


class PodTraits(Struct, frozen=True):
    """The traits of pods by which quotas choose pods."""

    priority_class: str = ""
    """Name of the PriorityClass; empty for none."""
    has_deadline: bool = False
    is_best_effort: bool = False
    leaves_namespace: bool = False
    """Whether an affinity to pods looks at other namespaces."""

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that have such pods."""
        return frozenset(
            {
                "Terminating" if self.has_deadline else "NotTerminating",
                "BestEffort" if self.is_best_effort else "NotBestEffort",
                *(("CrossNamespacePodAffinity",) if self.leaves_namespace else ()),
                *((PRIORITY_CLASS,) if self.priority_class else ()),
            }
        )


def from_template(template: Mapping[str, Any]) -> PodTraits:
    """Return the traits of the pods of a template, which the API server has not validated."""
    spec = _mapping(template.get("spec"))
    name, deadline = spec.get("priorityClassName"), spec.get("activeDeadlineSeconds")
    return PodTraits(
        priority_class=name if isinstance(name, str) else "",
        has_deadline=isinstance(deadline, int) and deadline >= 0,
        is_best_effort=not any(map(_is_positive, _cpus_and_memory(spec))),
        leaves_namespace=any(map(_leaves_namespace, _affinity_terms(spec))),
    )


def counts(quota: ResourceQuota, traits: PodTraits) -> bool:
    """Return whether a quota counts pods with these traits."""
    selector = quota.spec.scope_selector
    return traits.scopes.issuperset(quota.spec.scopes) and all(
        _matches(traits, expression) for expression in (selector.match_expressions if selector is not None else ())
    )


def has_scopes(quota: ResourceQuota) -> bool:
    """Return whether a quota counts some pods of its namespace only."""
    return bool(quota.spec.scopes) or quota.spec.scope_selector is not None


def _matches(traits: PodTraits, requirement: ScopeRequirement) -> bool:
    if requirement.scope_name != PRIORITY_CLASS:
        return requirement.scope_name in traits.scopes
    name = traits.priority_class
    match requirement.operator:
        case "In":
            return bool(name) and name in requirement.values
        case "NotIn":
            return name not in requirement.values
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case _:
            return False


def _cpus_and_memory(spec: Mapping[str, Any]) -> Iterator[object]:
    """Yield the amounts by which the QoS class of a pod is decided."""
    for part in (spec, *_mappings(spec.get("containers")), *_mappings(spec.get("initContainers"))):
        resources = _mapping(part.get("resources"))
        for kind in ("requests", "limits"):
            amounts = _mapping(resources.get(kind))
            yield from (amounts[name] for name in ("cpu", "memory") if name in amounts)


def _is_positive(amount: object) -> bool:
    try:
        return quantities.parse(str(amount)) > Fraction(0)
    except quantities.MalformedQuantityError:
        return False


def _affinity_terms(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    affinity = _mapping(spec.get("affinity"))
    for kind in (_mapping(affinity.get("podAffinity")), _mapping(affinity.get("podAntiAffinity"))):
        yield from _mappings(kind.get("requiredDuringSchedulingIgnoredDuringExecution"))
        for weighted in _mappings(kind.get("preferredDuringSchedulingIgnoredDuringExecution")):
            yield _mapping(weighted.get("podAffinityTerm"))


def _leaves_namespace(term: Mapping[str, Any]) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of a list; nothing of another value."""
    return (item for item in (value if isinstance(value, list) else ()) if isinstance(item, Mapping))
