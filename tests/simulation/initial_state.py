"""What there is when a run begins: nodes, devices, and how the controllers are configured."""

from functools import cache
from typing import Any

import msgspec

from dra.api.configuration import ControllerConfiguration
from tests.dra.engine.simulation.list_limits import DEFAULT_LIST_SIZE
from tests.simulation.autoscaler import NodeGroup


class InitialState(msgspec.Struct, frozen=True, kw_only=True):
    """What there is when a run begins."""

    kep: bool = False
    """Whether the API server knows the KEP's fields."""
    devices: tuple[tuple[str, tuple[str, ...]], ...] = (("gpu-0", ("n1", "n2", "n3")),)
    """Names of devices, and of the nodes that reach each."""
    by_label: bool = False
    """Whether nodes reach devices by labels of theirs, which may change."""
    nodes: tuple[str, ...] = ("n1", "n2", "n3")
    namespaces: tuple[str, ...] = ("ml",)
    replicas: int = 1
    """Controllers; more than one have a lease."""
    release_finished: bool = True
    release_suspended: bool = False
    list_size: tuple[int, int] = DEFAULT_LIST_SIZE
    """How many entries a list holds, and how many of them are left to the scheduler."""
    node_group: NodeGroup | None = None
    """Nodes of an autoscaler, beside `nodes`."""
    quota: int = 0
    """Pods that a queue admits at a time; 0: there is no queue."""
    requeue_seconds: float = 10.0
    """Seconds after which the queue admits an evicted Job again, at the earliest."""


@cache
def configuration(*, replicas: int, release_finished: bool, release_suspended: bool) -> ControllerConfiguration:
    """Return what the controllers are configured with: nothing unusual, but no sockets."""
    content: dict[str, Any] = {
        "mode": "replace",
        "probes": None,
        "metrics": None,
        "releaseFinished": release_finished,
        "releaseSuspended": release_suspended,
        "leaderElection": {"enabled": replicas > 1, "namespace": "kube-system"},
    }
    return ControllerConfiguration.model_validate(content)
