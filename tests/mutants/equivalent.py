"""Mutants that do the same as the code: no test can find them. Each with the reason, by file and changed code."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EQUIVALENT: Final[Mapping[tuple[str, str, str], str]] = MappingProxyType({})
"""(file, code before, code after) → why nobody can tell the difference."""
