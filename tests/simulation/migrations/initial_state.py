"""The nodes and the configuration with which a history begins."""

from typing import Any, Final

import msgspec

TEMPLATE: Final = "one-device"
"""A ResourceClaimTemplate in each namespace."""


class InitialState(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and the configuration with which a history begins."""

    nodes: tuple[tuple[str, int], ...] = (("n1", 8), ("n2", 8), ("n3", 8))
    """Names and CPUs."""
    devices: int = 1
    """Devices of each node."""
    start_seconds: float = 1.0
    """Maximum seconds until a pod's containers run."""
    namespaces: tuple[str, ...] = ("ml",)
    limits: dict[str, Any] = msgspec.field(default_factory=dict)
    """The section ``migration`` of the descheduler's configuration."""
