"""Rules of colocation, broken one at a time: each must be found, or the simulation proves nothing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

SetAttribute: TypeAlias = Callable[[Any, str, Any], None]
"""``setattr``, or a monkeypatch's that is undone after the test."""

Mutation: TypeAlias = Callable[[SetAttribute], None]

MUTATIONS: Final[tuple[Mutation, ...]] = ()

BY_NAME: Final[Mapping[str, Mutation]] = MappingProxyType({mutation.__name__: mutation for mutation in MUTATIONS})
