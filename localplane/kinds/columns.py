"""Defines columns of ``kubectl get`` that many kinds share, and formats cells: ages, containers, selectors."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from localplane.kinds.kind import PrinterColumn
from localplane.objects import Object

NAME: Final = PrinterColumn(name="Name", format="name", path=".metadata.name")
AGE: Final = PrinterColumn(name="Age")
"""Column of an object's age; its cell comes from `age`."""

WIDE: Final = 1
"""Priority of columns that only ``-o wide`` shows."""

CONTAINERS: Final = (
    PrinterColumn(name="Containers", priority=WIDE),
    PrinterColumn(name="Images", priority=WIDE),
    PrinterColumn(name="Selector", priority=WIDE),
)
"""Wide columns of kinds with a pod template; their cells come from `pod_template_cells`."""

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400


def strings(*names: str) -> tuple[PrinterColumn, ...]:
    """Return computed columns of strings."""
    return tuple(PrinterColumn(name=name) for name in names)


def integers(*names: str) -> tuple[PrinterColumn, ...]:
    """Return computed columns of integers."""
    return tuple(PrinterColumn(name=name, type="integer") for name in names)


def wide(*names: str) -> tuple[PrinterColumn, ...]:
    """Return computed columns that only ``-o wide`` shows."""
    return tuple(PrinterColumn(name=name, priority=WIDE) for name in names)


def parse_time(text: str | None) -> datetime | None:
    """Return the time of an API timestamp in UTC, None without one."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def elapsed(text: str | None, now: datetime) -> str:
    """Return the time since a timestamp, ``<unknown>`` without one."""
    then = parse_time(text)
    return _UNKNOWN if then is None else human_duration((now - then).total_seconds())


def age(obj: Object, now: datetime) -> str:
    """Return the age of an object."""
    return elapsed(obj["metadata"].get("creationTimestamp"), now)


def human_duration(seconds: float) -> str:
    """Return a duration in about two digits: ``99s``, ``5m3s``, ``26h``, ``9d``."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    minutes, hours, days = whole // _MINUTE, whole // _HOUR, whole // _DAY
    years = days // 365
    for within, text in (
        (whole < 2 * _MINUTE, f"{whole}s"),
        (whole < 10 * _MINUTE, _two_units(f"{minutes}m", whole % _MINUTE, "s")),
        (whole < 3 * _HOUR, f"{minutes}m"),
        (whole < 8 * _HOUR, _two_units(f"{hours}h", minutes % 60, "m")),
        (whole < 2 * _DAY, f"{hours}h"),
        (whole < 8 * _DAY, _two_units(f"{days}d", hours % 24, "h")),
        (whole < 2 * 365 * _DAY, f"{days}d"),
        (whole < 8 * 365 * _DAY, _two_units(f"{years}y", days % 365, "d")),
    ):
        if within:
            return text
    return f"{years}y"


def _two_units(first: str, rest: int, unit: str) -> str:
    return f"{first}{rest}{unit}" if rest else first


def or_none(text: str | None) -> str:
    """Return a text, ``<none>`` if the text is empty."""
    return text or _NONE


def pod_template_cells(obj: Object) -> Mapping[str, str]:
    """Return the cells of the columns `CONTAINERS`."""
    spec = obj["spec"]
    containers = spec["template"]["spec"].get("containers") or ()
    return {
        "Containers": ",".join(container["name"] for container in containers),
        "Images": ",".join(container.get("image", "") for container in containers),
        "Selector": format_label_selector(spec.get("selector")),
    }


def format_label_selector(value: Mapping[str, Any] | None) -> str:
    """Return a label selector in one line: ``a=b,c in (d,e),!f``."""
    if value is None:
        return _NONE
    parts = [f"{key}={wanted}" for key, wanted in sorted((value.get("matchLabels") or {}).items())]
    parts += [
        _format_requirement(requirement)
        for requirement in sorted(value.get("matchExpressions") or (), key=lambda requirement: requirement["key"])
    ]
    return ",".join(parts) or _NONE


def _format_requirement(expression: Mapping[str, Any]) -> str:
    key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
    match expression["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"


def find_condition(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> Mapping[str, Any] | None:
    """Return the condition of a type, None if there is none."""
    return next((condition for condition in conditions or () if condition.get("type") == kind), None)


def is_condition_true(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> bool:
    """Return whether a condition exists and has status True."""
    condition = find_condition(conditions, kind)
    return condition is not None and condition.get("status") == "True"
