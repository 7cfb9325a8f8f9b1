"""What a test cluster is like: one frozen value, given to `Cluster`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.fake_nodes import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_CONTROLLERS: Final = "*"
"""The cluster as everybody has it: dra-reserve works alongside the stock claim controller."""

WITHOUT_CLAIM_CONTROLLER: Final = "*,-resourceclaim-controller"
"""dra-reserve replaces the stock claim controller."""


@dataclass(frozen=True, kw_only=True)
class ClientLimits:
    """A component's own limit of its requests per second."""

    qps: int
    burst: int


STOCK_SCHEDULER_LIMITS: Final = ClientLimits(qps=50, burst=100)
"""kube-scheduler's defaults: what users have, so the speed that counts is measured under them."""

FAST_CONTROLLERS: Final = ClientLimits(qps=200, burst=400)
"""Ten times kube-controller-manager's defaults: at 20 QPS all one can measure is how slowly a Job makes pods."""


class Component(StrEnum):
    """What a cluster can do without: whoever leaves it out plays it."""

    SCHEDULER = "scheduler"
    NODES = "nodes"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to start the components."""

    kubernetes: str | None = None
    """The version, e.g. 1.35; none is the one that DRA_KUBERNETES chooses, or `binaries.DEFAULT`."""
    controllers: str = ALL_CONTROLLERS
    controller_limits: ClientLimits = FAST_CONTROLLERS
    scheduler_limits: ClientLimits = STOCK_SCHEDULER_LIMITS
    scheduler_configuration: Mapping[str, Any] = field(default_factory=dict)
    """More fields of KubeSchedulerConfiguration, e.g. profiles and extenders."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    apiserver_flags: tuple[str, ...] = ()
    etcd_flags: tuple[str, ...] = ()
    without: frozenset[Component] = frozenset()
    """Components that are not started."""
    nodes: int = 3
    broken_nodes: int = 0
    """Nodes on which no pod ever gets its sandbox."""
    node_lease_seconds: int = LEASE_SECONDS
