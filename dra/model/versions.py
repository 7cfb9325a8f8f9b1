"""Semantic versions (semver.org 2.0.0), as device attributes have them."""

import re
from typing import Final, NamedTuple

_NUMBER: Final = r"(?:0|[1-9]\d*)"
_IDENTIFIER: Final = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_LOOSE: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?((?:[-+].*)?)", re.ASCII)


class MalformedVersionError(ValueError):
    """A text that is no version."""


class Version(NamedTuple):
    """A version without its build metadata, which never count; compares as the standard orders versions."""

    major: int
    minor: int
    patch: int
    release: int
    """1 for a release, 0 for something before it: so that ``1.0.0-rc.1`` sorts before ``1.0.0``."""
    stages: tuple[tuple[int, int, str], ...] = ()
    """Identifiers of what comes before a release; numbers sort before names."""

    def __str__(self) -> str:
        stages = ".".join(name or str(number) for _, number, name in self.stages)
        return f"{self.major}.{self.minor}.{self.patch}{f'-{stages}' if stages else ''}"


def parse(text: str) -> Version:
    """Return the version. Raises MalformedVersionError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise MalformedVersionError(f"{text!r} is no semantic version; write it as in: 1.2.3")
    major, minor, patch, stages = match.groups()
    parts = tuple((0, int(s), "") if s.isdecimal() else (1, 0, s) for s in (stages or "").split(".") if s)
    return Version(int(major), int(minor), int(patch), 0 if parts else 1, parts)


def completed(text: str) -> str:
    """Return a version as people write it (``v1``, ``1.02``) in the standard's form, as far as it can be told."""
    match = _LOOSE.fullmatch(text)
    if match is None:
        return text
    major, minor, patch, rest = match.groups()
    return f"{int(major)}.{int(minor or 0)}.{int(patch or 0)}{rest}"
