"""What a newer surface breaks for those who rely on the older one: additions are free, removals and changes are not.

Surfaces are those of `surface.py`: section → name → what is said about the name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Json = dict[str, Any]
Surface = dict[str, dict[str, Json]]

UNCHANGED: Final = {
    "metrics": ("type",),
    "reasons": ("type",),
    "configuration": ("default",),
    "commands": ("repeated", "flag"),
    "crds": ("type", "format", "default", "pattern", "scope", "kind", "served", "storage", "status", "rules"),
}
"""Section → what must stay as it is."""

GROWING: Final = {"metrics": ("labels",), "commands": ("choices",), "crds": ("enum",)}
"""Section → sets of values, which may get new members and lose none."""


def breaks(old: Surface, new: Surface, *, intended: Mapping[str, str] | None = None) -> list[str]:
    """Return a line for each break; `intended`: regular expressions of lines that are none, each with its reason."""
    lines = [
        f"{section}: {line}"
        for section, names in old.items()
        for line in _section(section, names, new.get(section, {}))
    ]
    return [line for line in lines if not any(re.search(each, line) for each in intended or ())]


def _section(section: str, old: dict[str, Json], new: dict[str, Json]) -> Iterator[str]:
    for name, was in old.items():
        if name not in new:
            yield f"{name} is gone"
            continue
        for line in _entry(section, was, new[name]):
            yield f"{name}: {line}"
    for name in new.keys() - old.keys():
        if new[name].get("required") and re.split(r"[ .](?=[^ .]*$)", name)[0] in old:
            yield f"{name} is new and required"


def _entry(section: str, was: Json, now: Json) -> Iterator[str]:
    for word in UNCHANGED.get(section, ()):
        if word in was and was[word] != now.get(word):
            yield f"{word} is {now.get(word)!r}, and was {was[word]!r}"
    for word in GROWING.get(section, ()):
        if lost := _members(was.get(word)) - _members(now.get(word)):
            yield f"{word} no longer has {', '.join(sorted(lost))}"
    if now.get("required") and not was.get("required"):
        yield "is required"
    if section == "configuration":  # the default is one of the values
        before, after = (_members(each.get("or else")) | _members(each.get("default")) for each in (was, now))
        if was.get("or else") and (lost := before - after):
            yield f"no longer takes {', '.join(sorted(lost))}"
    yield from _narrower(was, now)


def _narrower(was: Json, now: Json) -> Iterator[str]:
    """Yield the limits of a field of a CRD that refuse what was valid."""
    before, after = ({**each, **each.get("limits", {})} for each in (was, now))
    for word, better in (("maximum", 1), ("maxLength", 1), ("maxItems", 1), ("maxProperties", 1), ("minimum", -1)):
        if word in after and (word not in before or (after[word] - before[word]) * better < 0):
            yield f"{word} is {after[word]}, and was {before.get(word, 'not limited')}"


def _members(value: str | Iterable[str] | None) -> set[str]:
    """Return the members of a list, or the code spans of a cell."""
    if value is None:
        return set()
    return set(re.findall(r"`([^`]*)`", value)) if isinstance(value, str) else set(map(str, value))
