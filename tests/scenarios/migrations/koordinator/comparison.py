"""The differences between two records, one line each: ``PATH: KOORDINATOR'S VALUE -> OURS``."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]

ABSENT: Final = "absent"


def differences(koordinator: Json, ours: Json) -> list[str]:
    """Return the differences, sorted by path; steps and Events that only one side has are lines with + or -."""
    before, after = dict(_leaves(koordinator)), dict(_leaves(ours))
    found = []
    for path in sorted(before.keys() | after.keys()):
        one, other = before.get(path, ABSENT), after.get(path, ABSENT)
        if isinstance(one, list) or isinstance(other, list):
            found += [f"{path}: {line}" for line in _changed(one, other)]
        elif one != other:
            found.append(f"{path}: {one} -> {other}")
    return found


def outcome(record: Json) -> dict[str, str]:
    """Return what a record shows at each stage, in one line: jobs, pods and Reservations."""
    return {stage: _outcome(found) for stage, found in record.items() if isinstance(found, Mapping) and "jobs" in found}


def _outcome(found: Json) -> str:
    parts = [f"{name} refused" for name in found.get("refused", {})]
    for name, job in found["jobs"].items():
        status = {} if job == "deleted" else job["status"]
        steps = [status.get("phase") or "Pending", status.get("status"), status.get("reason")]
        parts.append(f"{name} " + ("deleted" if job == "deleted" else "/".join(filter(None, steps))))
    for name, fate in found["pods"].items():
        held = [each["on the node of the Reservation"] for each in fate["replacements"]]
        used = " and replaced in the Reservation" if any(held) else " and replaced" if held else ""
        asked = (
            " and asked to end" if "scheduling.koordinator.sh/soft-eviction" in fate.get("new annotations", ()) else ""
        )
        parts.append(f"{name} {fate['pod']}{used}{asked}")
    for name, reservation in found["reservations"].items():
        parts.append(f"reservation {name} {reservation.get('status', {}).get('phase', 'without a phase')}")
    return ", ".join(parts)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and value; conditions are found by their type, and lists of sentences stay as they are."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) and "type" in each for each in value):
        for each in value:
            yield from _leaves({key: each[key] for key in each if key != "type"}, f"{path}/{each['type']}")
    elif isinstance(value, list) and path.startswith(("course", "events")):
        yield path, value
    elif value not in ("", [], {}, None):
        yield path, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _changed(one: list[str] | str, other: list[str] | str) -> list[str]:
    before, after = ([] if each == ABSENT else list(each) for each in (one, other))
    return [line for line in difflib.ndiff(before, after) if line.startswith(("- ", "+ "))]
