"""Applies manifests to objects that exist already, as ``kubectl apply`` would.

A simulation previews what happens after ``kubectl apply -f`` of the same files. So the fields of a manifest replace
those of the object, lists as a whole; other fields and the status stay. Where the API server would refuse a change, the
object stays as it is.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from dra.cli.kubectl.simulate.simulated_manifests import STRATEGIES, Manifests, ObjectKey
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model import quantities
from dra.model.merge_patches import merged
from dra.model.meta import ObjectMeta


class _Kind(NamedTuple):
    """A kind of objects that a manifest may change, and where these objects are."""

    name: str
    of_manifests: str
    of_snapshot: str
    immutable: tuple[tuple[str, ...], ...] = ()
    """Paths of the fields that the API server refuses to change; then it refuses the whole manifest."""


_SPEC: Final = (("spec",),)

_AMOUNTS: Final = frozenset({"capacity", "allocatable", "counters", "podFixed", "allocationMultiplier"})
"""Fields whose values, at any depth, are quantities."""

_NAMED_BY_USERS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "attributes"})
"""Fields that have keys of users: a label may be called ``capacity``."""

_KINDS: Final = (
    _Kind("Node", "nodes", "nodes"),
    _Kind("ResourceSlice", "slices", "slices", (("spec", "driver"), ("spec", "nodeName"), ("spec", "pool", "name"))),
    _Kind("DeviceClass", "classes", "classes"),
    _Kind("ResourceClaim", "claims", "claims", _SPEC),
    _Kind("ResourceClaimTemplate", "templates", "templates", _SPEC),
    _Kind("RuntimeClass", "runtime_classes", "runtime_classes"),
    _Kind("PriorityClass", "priority_classes", "priorities", (("value",), ("preemptionPolicy",))),
)


def apply_manifests(snapshot: Snapshot, manifests: Manifests) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot with its objects as the manifests change them, and a text for each that is not as it was.

    Objects that exist already are removed from the manifests: what is left is new.
    """
    texts: list[str] = []
    for kind in _KINDS:
        there = getattr(snapshot, kind.of_snapshot)
        objects = {present.metadata.key: present for present in there or ()}
        new = []
        for manifest_object in getattr(manifests, kind.of_manifests):
            existing = objects.get(manifest_object.metadata.key)
            if existing is None:
                new.append(manifest_object)
                continue
            content = manifests.contents[ObjectKey(kind.name, manifest_object.metadata.key)]
            changed = _applied(existing, content, with_body=True)
            faults = _faults(kind, existing, changed)
            is_refused = bool(faults) or _changes_immutable_field(kind, existing, changed)
            if is_refused or kind.immutable == _SPEC:  # an equal spec lacks what the API server has defaulted
                changed = _applied(existing, content, with_body=False)
            objects[manifest_object.metadata.key] = changed
            texts += _texts(kind, existing, content, is_refused=is_refused, faults=faults)
        setattr(manifests, kind.of_manifests, new)
        if there is not None:
            snapshot = msgspec.structs.replace(snapshot, **{kind.of_snapshot: tuple(objects.values())})
    return snapshot, tuple(texts)


def _changes_immutable_field(kind: _Kind, existing: Any, applied: Any) -> bool:  # noqa: ANN401 - any kind
    there, change = msgspec.to_builtins(existing), msgspec.to_builtins(applied)
    return any(not _contains(_value_at(there, path), _value_at(change, path)) for path in kind.immutable)


def _faults(kind: _Kind, existing: Any, applied: Any) -> str:  # noqa: ANN401 - any kind
    """Return why the API server would refuse a changed object that it takes as it is; empty if it would not."""
    strategy = STRATEGIES.get(kind.name)
    if strategy is None:
        return ""
    before, after = ({"spec": {}} | msgspec.to_builtins(version) for version in (existing, applied))
    if strategy.validate(before):  # of a newer release, perhaps
        return ""
    return "; ".join(f"{error.field}: {error.message}" for error in strategy.validate(after))


def _value_at(value: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    """Return the value at a path; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _applied(existing: Any, content: Mapping[str, Any], *, with_body: bool) -> Any:  # noqa: ANN401 - any kind
    there = msgspec.to_builtins(existing)
    change = _metadata_change(content)
    if with_body:
        change |= _body(content)
    return msgspec.convert(merged(there, change), type(existing))


def _texts(
    kind: _Kind,
    existing: Any,  # noqa: ANN401 - any kind
    content: Mapping[str, Any],
    *,
    is_refused: bool,
    faults: str,
) -> Iterator[str]:
    """Yield what becomes of an object that a manifest changes; nothing if the manifest changes nothing."""
    there = msgspec.to_builtins(existing)
    metadata: ObjectMeta = existing.metadata
    name = f"{kind.name.lower()} {'/'.join(filter(None, metadata.key))}"
    changes_body = not _contains(there, _known_fields(existing, _body(content)))
    changes_metadata = not _contains(there, _metadata_change(content))
    if faults:
        yield f"{name}: exists, and the API server would refuse the change ({faults}); it is simulated as it is"
    elif is_refused:
        yield f"{name}: exists with another spec, which the API server would refuse to change; it is simulated as it is"
    elif changes_body or changes_metadata:
        yield f"{name}: exists; it is simulated with the fields of the manifest"
    status = content.get("status")
    if status and not _contains(there.get("status", {}), _known_fields(existing, {"status": status})["status"]):
        yield f"{name}: exists; it is simulated with the status that it has, not with that of the manifest"


def _metadata_change(content: Mapping[str, Any]) -> dict[str, Any]:
    meta = content["metadata"]
    return {"metadata": {field: meta[field] for field in ("labels", "annotations") if meta.get(field)}}


def _body(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in {"apiVersion", "kind", "metadata", "status"}}


def _known_fields(existing: Any, change: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - any kind
    """Return the fields of a change that the simulation reads."""
    whole = {"metadata": {"name": "x"}, **change}
    known: dict[str, Any] = msgspec.to_builtins(msgspec.convert(whole, type(existing)))
    return {key: value for key, value in known.items() if key != "metadata"}


def _contains(there: Any, change: Any, *, amounts: Collection[str] | None = _AMOUNTS) -> bool:  # noqa: ANN401 - JSON
    """Return whether a JSON value has all that another has, apart from fields that the API server defaults.

    `amounts`: fields whose values are quantities, equal if their amounts are: 1Gi is 1024Mi; None: all are quantities.
    """
    if isinstance(change, Mapping):
        return isinstance(there, Mapping) and all(
            _contains(there.get(key), value, amounts=_amounts_below(key, amounts)) for key, value in change.items()
        )
    if isinstance(change, list) and isinstance(there, list):
        pairs = zip(there, change, strict=False)
        return len(there) == len(change) and all(_contains(one, other, amounts=amounts) for one, other in pairs)
    return str(there) == str(change) or (amounts is None and _equal_amounts(there, change))


def _amounts_below(key: str, amounts: Collection[str] | None) -> Collection[str] | None:
    if amounts is None or key in amounts:
        return None
    return () if key in _NAMED_BY_USERS else amounts


def _equal_amounts(one: Any, other: Any) -> bool:  # noqa: ANN401 - JSON
    try:
        return quantities.parse(one) == quantities.parse(other)
    except (quantities.MalformedQuantityError, TypeError):
        return False
