"""What of a reservation's template cannot be used: the schema leaves it free-form, so anything may stand there.

Looked at is what we read ourselves, or put into the placeholder: of fields that are nobody's the API server takes no
notice, and of wrong values in well-formed ones it tells when the placeholder is made. Amounts are read in `amounts`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

DEEPEST: Final = 64
"""Levels of a template. A pod has less than twenty; thousands exceed what can be copied and sent."""

_SHOWN: Final = 5
"""Parts of a path that is too long."""

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

_Shape = type | dict[str, Any]
"""A type, or an object with these fields; others are free."""

_TERMS: Final = {"nodeSelectorTerms": list}
_SHAPE: Final[dict[str, Any]] = {
    "namespace": str,
    "metadata": {"namespace": str, "labels": dict, "annotations": dict},
    "spec": {
        "nodeName": str,
        "schedulerName": str,
        "priority": int,
        "nodeSelector": dict,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS}},
        "tolerations": list,
        "topologySpreadConstraints": list,
        "priorityClassName": str,
        "preemptionPolicy": str,
        "resourceClaims": list,
    },
}

_WORDS: Final = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def faults(template: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong, each with the path of the field; what is too deep hides all else."""
    if (path := _too_deep(template)) is not None:
        yield (
            f"{path}: is nested more than {DEEPEST} levels deep, as no pod is; take it out of the template, in "
            "a new reservation"
        )
        return
    yield from _misshapen(template, _SHAPE, "spec.template")
    for where, given in (
        ("spec.template.metadata.namespace", _of(template.get("metadata"), "namespace")),
        ("spec.template.namespace", template.get("namespace")),
    ):
        if isinstance(given, str) and given and not _NAMESPACE.fullmatch(given):
            yield f"{where}: {given[:63]!r} is no name of a namespace"
    required = _of(_of(_of(template.get("spec"), "affinity"), "nodeAffinity"), _REQUIRED)
    terms = _of(required, "nodeSelectorTerms")
    for index, term in enumerate(terms if isinstance(terms, list) else ()):
        where = f"spec.template.spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[{index}]"
        yield from _misshapen(term, {"matchFields": list}, where)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _of(given: object, field: str) -> object:
    return given.get(field) if isinstance(given, dict) else None


def _misshapen(given: object, shape: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - a type, or fields with theirs
    """Yield what is not as `shape` has it."""
    kind = dict if isinstance(shape, dict) else shape
    if not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
        yield f"{path}: must be {_WORDS[kind]}, as in a Pod"
    elif isinstance(shape, dict) and isinstance(given, dict):
        for field, each in given.items():
            if each is not None and (inner := shape.get(field)) is not None:  # a null is an absent field
                yield from _misshapen(each, inner, f"{path}.{field}")


def _too_deep(template: Mapping[str, Any]) -> str | None:
    """Return the beginning of a path that is too long."""
    waiting: list[tuple[int, tuple[str, ...], object]] = [(0, ("spec.template",), template)]
    while waiting:
        level, path, each = waiting.pop()
        if level > DEEPEST:
            return ".".join(path) + "…"
        parts: Iterable[tuple[object, object]] = ()
        if isinstance(each, dict):
            parts = each.items()
        elif isinstance(each, list):
            parts = enumerate(each)
        for name, inner in parts:
            if isinstance(inner, dict | list):
                shown = path if len(path) > _SHOWN else (*path, str(name)[:63])
                waiting.append((level + 1, shown, inner))
    return None
