"""What a plane can be told before it starts."""

from dataclasses import dataclass
from pathlib import Path

from localplane.schemas.builtin_schemas import Dialect
from localplane.schemas.releases import NEWEST, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneOptions:
    """The shape of a plane."""

    api: Dialect = Dialect.KEP
    release: Release = NEWEST
    """The version of Kubernetes that server, scheduler and kubelets behave as."""

    nodes: int = 3
    devices: int = 8
    """Of each node, simulated."""
    processes: bool = False
    """Whether the commands of containers are executed on this machine."""
    plugins: Path | None = None
    """The runtime folder with the sockets of DRA plugins, a folder for each node; None: all drivers are simulated."""
