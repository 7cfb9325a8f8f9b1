"""Adds colocation to a plane: the kinds, and agents that report what the emulated nodes use.

The controller creates the NodeMetrics and computes batch resources, as on real clusters; the ConfigMap
slo-controller-config enables it.
"""

from typing import Final

from dra.api.colocation import node_metric_crd
from dra.api.profiles import crd as profile_crd
from dra.cli.local.plane_definitions import apply_definitions
from localplane.nodes.usage.node_agents import NodeAgents
from localplane.plane.components import emulated_nodes
from localplane.plane.local_plane import LocalPlane

COLOCATION_COMPONENT: Final = "node-agents"


def add_colocation(plane: LocalPlane) -> None:
    """Add the kinds and the agents of all nodes to a plane, before the plane runs."""
    names = [spec.name for spec in emulated_nodes(plane.options)]

    async def run() -> None:
        client = plane.client(COLOCATION_COMPONENT)
        await apply_definitions(
            client, (node_metric_crd.custom_resource_definition(), profile_crd.custom_resource_definition())
        )
        await NodeAgents(client, nodes=names, clock=plane.clock).run()

    plane.add_component(COLOCATION_COMPONENT, run)
