"""The two servers: both with the garbage collector, one with the stock claim controller, one with room for ours."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from tests.cluster.cluster import Cluster
from tests.cluster.options import ClientLimits, Component, Options
from tests.scenarios import api as kubernetes
from tests.scenarios.differential.mirror import Mirror, following

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_COMMON: Final = "garbage-collector-controller,clusterrole-aggregation-controller"
"""Namespaces are not emptied: the servers end with the test. Rights are aggregated: ours needs some."""

STOCK: Final = f"{_COMMON},resourceclaim-controller"
OURS: Final = _COMMON

UNLIMITED: Final = ClientLimits(qps=1000, burst=2000)
"""Hundreds of scripts at once share the stock controller's client."""


def cluster(controllers: str) -> Cluster:
    """Return a server, not started yet."""
    return Cluster(
        Options(
            controllers=controllers,
            controller_limits=UNLIMITED,
            # Pods need no service account, of which nobody would make one in each namespace.
            apiserver_flags=("--disable-admission-plugins=ServiceAccount",),
            without=frozenset({Component.SCHEDULER, Component.NODES}),
        )
    )


@asynccontextmanager
async def mirrored(server: Cluster) -> AsyncIterator[Mirror]:
    """Yield the mirror of a running server."""
    async with kubernetes.connect(server.admin_kubeconfig) as api, following(api) as mirror:
        yield mirror
