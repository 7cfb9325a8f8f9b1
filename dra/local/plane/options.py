"""What a plane can be told before it starts."""

from dataclasses import dataclass
from enum import StrEnum


class Api(StrEnum):
    """Which API the server has."""

    STOCK = "stock"  # as Kubernetes 1.36
    KEP = "kep"  # with spec.reservedFor of KEP-5194


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The shape of a plane."""

    api: Api = Api.KEP
    nodes: int = 3
    devices: int = 8
    """Of each node."""
