"""Which components a plane has."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.local.plane.options import Options
from dra.local.plane.supervision import Start

NODES: Final = "kubelets"
"""The component that brings the nodes."""


def components(
    options: Options, *, client: Callable[[str], Client], clock: Clock, chance: Random
) -> Mapping[str, Start]:
    """Return how to start each component, by name."""
    del options, client, clock, chance
    return {}
