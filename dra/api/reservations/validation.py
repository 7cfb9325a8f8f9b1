"""The validation of fields that the schema cannot refuse: the template and the owners of a reservation.

The template is free-form in the schema. Validated are the fields that this program reads or copies into the
placeholder; the API server ignores unknown fields, and reports wrong values in well-formed fields when the placeholder
is created. An invalid label selector of an owner makes the whole reservation unusable: the valid half of a selector may
mean something else. Amounts are parsed in `dra.model.quantities`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dra.api.reservations.model import (
    LabelSelector,
    ReservationOwner,
)

MAX_DEPTH: Final = 64
"""Maximum levels of a template. A pod has fewer than twenty; thousands are too deep to copy and send."""

_SHOWN_PATH_PARTS: Final = 5
"""Parts that are shown of a path that is too deep."""

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

_LABEL_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_NODE_SELECTOR_SHAPE: Final = {"nodeSelectorTerms": list}
_TEMPLATE_SHAPE: Final[dict[str, Any]] = {  # field → type, or object with these fields; other fields are free
    "namespace": str,
    "metadata": {"namespace": str, "labels": dict, "annotations": dict},
    "spec": {
        "nodeName": str,
        "schedulerName": str,
        "priority": int,
        "nodeSelector": dict,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _NODE_SELECTOR_SHAPE}},
        "tolerations": list,
        "topologySpreadConstraints": list,
        "priorityClassName": str,
        "preemptionPolicy": str,
        "resourceClaims": list,
    },
}

_TYPE_NAMES: Final = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


def validate_template(template: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors in a template, each with the path of the field; one that is too deep has no other errors."""
    if (path := _too_deep_path(template)) is not None:
        yield (
            f"{path}: is nested more than {MAX_DEPTH} levels deep, more than any pod; create a new "
            "reservation without this field"
        )
        return
    yield from _type_errors(template, _TEMPLATE_SHAPE, "spec.template")
    for where, given in (
        ("spec.template.metadata.namespace", _field(template.get("metadata"), "namespace")),
        ("spec.template.namespace", template.get("namespace")),
    ):
        if isinstance(given, str) and given and not _NAMESPACE.fullmatch(given):
            yield f"{where}: {given[:63]!r} is not a valid namespace name"
    required = _field(_field(_field(template.get("spec"), "affinity"), "nodeAffinity"), _REQUIRED)
    terms = _field(required, "nodeSelectorTerms")
    for index, term in enumerate(terms if isinstance(terms, list) else ()):
        where = f"spec.template.spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[{index}]"
        yield from _type_errors(term, {"matchFields": list}, where)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _field(given: object, field: str) -> object:
    return given.get(field) if isinstance(given, dict) else None


def _type_errors(given: object, shape: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - a type, or fields with theirs
    """Yield the fields whose type is not that of `shape`."""
    kind = dict if isinstance(shape, dict) else shape
    if not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
        yield f"{path}: must be {_TYPE_NAMES[kind]}, as in a Pod"
    elif isinstance(shape, dict) and isinstance(given, dict):
        for field, value in given.items():
            if value is not None and (inner := shape.get(field)) is not None:  # a null counts as an absent field
                yield from _type_errors(value, inner, f"{path}.{field}")


def _is_too_deep(template: Mapping[str, Any]) -> bool:
    """Report whether a path is too deep, without paths: each of a thousand updates of a template is validated."""
    level: list[Any] = [template]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep_path(template: Mapping[str, Any]) -> str | None:
    """Return the beginning of a path that is too deep; None if no path is."""
    if not _is_too_deep(template):
        return None
    waiting: list[tuple[int, tuple[str, ...], object]] = [(0, ("spec.template",), template)]
    while waiting:
        level, path, node = waiting.pop()
        if level > MAX_DEPTH:
            return ".".join(path) + "…"
        parts: Iterable[tuple[object, object]] = ()
        if isinstance(node, dict):
            parts = node.items()
        elif isinstance(node, list):
            parts = enumerate(node)
        for name, inner in parts:
            if isinstance(inner, dict | list):
                shown = path if len(path) > _SHOWN_PATH_PARTS else (*path, str(name)[:63])
                waiting.append((level + 1, shown, inner))
    return None


def validate_owners(owners: Iterable[ReservationOwner]) -> list[str]:
    """Return the errors in label selectors, each after the path of its field."""
    return [
        f"spec.owners[{index}].labelSelector.{fault}"
        for index, owner in enumerate(owners)
        if owner.label_selector is not None
        for fault in _selector_errors(owner.label_selector)
    ]


def _selector_errors(selector: LabelSelector) -> Iterable[str]:
    for key, value in selector.match_labels.items():
        if not is_label_key(key):
            yield f"matchLabels: {key!r} is not a valid label key"
        if not is_label_value(value):
            yield f"matchLabels[{key}]: {value!r} is not a valid label value"
    for index, requirement in enumerate(selector.match_expressions):
        where = f"matchExpressions[{index}]"
        if not is_label_key(requirement.key):
            yield f"{where}.key: {requirement.key!r} is not a valid label key"
        match requirement.operator:
            case "In" | "NotIn":
                if not requirement.values:
                    yield f"{where}.values: In and NotIn need values"
                yield from (
                    f"{where}.values: {value!r} is not a valid label value"
                    for value in requirement.values
                    if not is_label_value(value)
                )
            case "Exists" | "DoesNotExist":
                if requirement.values:
                    yield f"{where}.values: Exists and DoesNotExist take no values"
            case _:
                yield f"{where}.operator: {requirement.operator!r} is none of In, NotIn, Exists, DoesNotExist"


def is_label_key(key: str) -> bool:
    """Return whether a text can be the key of a label."""
    prefix, slash, _ = key.rpartition("/")
    return _LABEL_KEY.fullmatch(key) is not None and (not slash or len(prefix) <= 253)  # noqa: PLR2004 - a DNS name


def is_label_value(value: str) -> bool:
    """Return whether a text can be the value of a label."""
    return _LABEL_VALUE.fullmatch(value) is not None
