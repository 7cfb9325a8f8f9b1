"""The nodes and the configuration with which a history begins."""

from collections.abc import Mapping
from typing import Any

import msgspec


class SimulatedNode(msgspec.Struct, frozen=True):
    """A node, and what its system uses."""

    name: str
    cpus: int
    gibibytes: int
    system_cpu: int
    """Milli-CPUs."""
    system_memory: int
    """Bytes."""


class InitialState(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and the configuration with which a history begins."""

    nodes: tuple[SimulatedNode, ...]
    strategy: Mapping[str, Any]
    """``colocation-config``."""
    threshold: Mapping[str, Any] = {}
    """The cluster's strategy of ``resource-threshold-config``."""
