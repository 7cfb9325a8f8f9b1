"""The comparison of what two builds say at /metrics: metrics, their types, and the labels of their samples."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPE: Final = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:]\w*)(?:\{(.*)\})? ", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')


def lost_series(old: str, new: str) -> list[str]:
    """Return a line for each metric of the old text that the new text lacks or has in another form."""
    return [*_types(dict(_TYPE.findall(old)), dict(_TYPE.findall(new))), *_labels(_labelled(old), _labelled(new))]


def _types(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for name, kind in old.items():
        if new.get(name) != kind:
            yield f"{name} is {new.get(name, 'gone')}, and was {kind}"


def _labels(old: dict[str, set[str]], new: dict[str, set[str]]) -> Iterator[str]:
    for name in old.keys() & new.keys():
        if lost := old[name] - new[name]:
            yield f"{name} has no label {', '.join(sorted(lost))}"


def _labelled(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name, labels in _SAMPLE.findall(text):
        found[name] |= set(_LABEL.findall(labels))
    return found
