"""What a plane can be told before it starts."""

from dataclasses import dataclass

from dra.local.schemas.structures import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The shape of a plane."""

    api: Dialect = Dialect.KEP
    nodes: int = 3
    devices: int = 8
    """Of each node."""
