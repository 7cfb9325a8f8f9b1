"""Adds colocation to a plane: the kinds, and agents that report what the emulated nodes use.

The controller creates the NodeMetrics and computes batch resources, as on real clusters; the ConfigMap
slo-controller-config enables it.
"""

import asyncio
from typing import Final

from dra.api.colocation import node_metric_crd
from dra.api.profiles import crd as profile_crd
from dra.cli.local.plane_definitions import apply_definitions
from localplane.nodes.usage.node_agents import NodeAgents
from localplane.plane.components import emulated_nodes
from localplane.plane.local_plane import LocalPlane

COLOCATION_COMPONENT: Final = "node-agents"


def add_colocation(plane: LocalPlane) -> "PlaneColocation":
    """Add colocation to a plane, before the plane runs."""
    added = PlaneColocation(plane)
    plane.add_component(COLOCATION_COMPONENT, added.run)
    return added


class PlaneColocation:
    """The agents of all nodes as a component of a plane."""

    def __init__(self, plane: LocalPlane) -> None:
        self._plane = plane
        self._served = asyncio.Event()

    async def run(self) -> None:
        """Apply the CRDs, then run the agents until cancelled."""
        client = self._plane.client(COLOCATION_COMPONENT)
        await apply_definitions(
            client, (node_metric_crd.custom_resource_definition(), profile_crd.custom_resource_definition())
        )
        self._served.set()
        names = [spec.name for spec in emulated_nodes(self._plane.options)]
        await NodeAgents(client, nodes=names, clock=self._plane.clock).run()

    async def wait_ready(self) -> None:
        """Wait until the kinds of colocation are served."""
        await self._served.wait()
