"""ResourceQuotas: the amounts that the pods of a namespace may request together."""

import msgspec

from dra.model.meta import BoundedObject, ObjectMeta, Struct


class ScopeRequirement(Struct, frozen=True):
    """``scopeSelector.matchExpressions[]``: a scope, of priority classes with an operator and their names."""

    scope_name: str = ""
    operator: str = ""
    values: frozenset[str] = frozenset()


class ScopeSelector(Struct, frozen=True):
    """``scopeSelector``: the requirements that all have to match."""

    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    """``spec`` of a ResourceQuota, as far as it says which pods count."""

    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    """``status`` of a ResourceQuota: limits in force, and what counts against these."""

    hard: dict[str, str | int] = msgspec.field(default_factory=dict)
    used: dict[str, str | int] = msgspec.field(default_factory=dict)


class ResourceQuota(BoundedObject, frozen=True):
    """A ResourceQuota of a namespace."""

    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
