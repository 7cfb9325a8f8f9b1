"""Defines the options of a plane, set before its start."""

from dataclasses import dataclass
from pathlib import Path

from dra.model.releases import NEWEST, Release
from localplane.schemas.builtin_schemas import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneOptions:
    """Options of a local plane."""

    api: Dialect = Dialect.KEP
    release: Release = NEWEST
    """Version of Kubernetes whose behavior server, scheduler and kubelets emulate."""

    nodes: int = 3
    devices: int = 8
    """Number of simulated devices per node."""
    claim_controller: bool = False
    """Whether the stock claim controller runs, as on clusters where dra-reserve is in mode ``alongside``."""
    processes: bool = False
    """Whether the commands of containers are executed on this machine."""
    plugins: Path | None = None
    """Runtime folder with the sockets of DRA plugins, one subfolder per node; None: all drivers are simulated."""
