"""koord-scheduler on a cluster of its own, twice: as installed, and with MostAllocated as the score of cards."""

from __future__ import annotations

import json
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from dra.api.koordinator import well_known
from dra.model import quantities
from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.options import Component, Options
from tests.cluster.ports import free
from tests.scenarios.koordinator.placement import manifests
from tests.scenarios.koordinator.placement.outcomes import Outcome, Record, Share
from tests.scenarios.koordinator.placement.play import namespace_of_cluster, play
from tests.scenarios.koordinator.placement.sets import Kind
from tests.scenarios.migrations.koordinator import peer
from tests.scenarios.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.scenarios.koordinator.placement.sets import PlacementSet
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

SPREADING: Final = "koord-scheduler"
"""The scheduler as installed."""
PACKING: Final = "koord-scheduler-most-allocated"

TOPOLOGIES: Final = Resource(
    "topology.node.k8s.io/v1alpha1", "NodeResourceTopology", "noderesourcetopologies", namespaced=False
)


@contextmanager
def running(programs: Path) -> Iterator[Path]:
    """Run a cluster with koord-scheduler, and yield the administrator's kubeconfig."""
    installation = peer.manifests()
    without = frozenset({Component.SCHEDULER, Component.NODES})
    with Cluster(Options(nodes=0, without=without)) as cluster:
        admin, folder = cluster.admin_kubeconfig, cluster.folder
        peer.install(admin, installation)
        own = kubeconfig.for_service_account(
            folder.path / "koord-scheduler.kubeconfig", admin=admin, namespace=peer.NAMESPACE, name="koord-scheduler"
        )
        installed = peer.scheduler_configuration(installation, own)
        # Two profiles of one process are impossible: koord-scheduler 1.6 registers a plugin's service twice.
        for configuration, port in zip((installed, packing(installed)), free(2), strict=True):
            peer.scheduler(folder, programs, configuration, port=port).start()
        yield admin


def packing(configuration: Json) -> Json:
    """Return a configuration with another name and another score of cards."""
    (installed,) = configuration["profiles"]
    profile = deepcopy(installed) | {"schedulerName": PACKING}
    weights = [{"name": f"koordinator.sh/{name}", "weight": 1} for name in ("gpu-memory-ratio", "gpu-memory")]
    arguments = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "DeviceShareArgs",
        "scoringStrategy": {"type": "MostAllocated", "resources": weights},
    }
    profile["pluginConfig"] = [*profile["pluginConfig"], {"name": "DeviceShare", "args": arguments}]
    return configuration | {"profiles": [profile]}


async def play_all(admin: Path, sets: Sequence[PlacementSet]) -> list[Record]:
    """Play the sets and return what Koordinator made of them."""
    async with namespace_of_cluster(admin) as namespace:
        return await play(namespace, sets, Koordinator(namespace))


class Koordinator:
    """koord-scheduler with the objects that it needs."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace: Final = namespace

    async def machines(self, made: PlacementSet) -> None:
        """Create Nodes, their Devices and their topologies."""
        for number, machine in enumerate(made.machines):
            await self._namespace.create(manifests.node(made, number, extended=manifests.card_resources(machine)))
            topology = manifests.node_resource_topology(made, number)
            await self._namespace.api.request("POST", TOPOLOGIES.path(), topology)
            if machine.cards:
                await self._namespace.create(manifests.device(made, number))

    async def pod(self, made: PlacementSet, step: int) -> Json | Outcome:
        """Return the pod for a step."""
        scheduler = SPREADING if made.kind in (Kind.SPREAD, Kind.NODES) else PACKING
        return manifests.pod(made, step, scheduler=scheduler)

    async def placed(self, made: PlacementSet, step: int, pod: Json) -> Outcome:  # noqa: ARG002
        """Return the outcome that the pod's annotations tell."""
        annotations = pod["metadata"].get("annotations", {})
        status = json.loads(annotations.get(well_known.ANNOTATION_RESOURCE_STATUS, "{}"))
        devices = json.loads(annotations.get(well_known.ANNOTATION_DEVICE_ALLOCATED, "{}"))
        shares = [
            Share(
                minor=each["minor"],
                core=_amount(each["resources"], well_known.RESOURCE_GPU_CORE),
                memory=_amount(each["resources"], well_known.RESOURCE_GPU_MEMORY),
            )
            for each in devices.get("gpu", ())
        ]
        names = [made.node(number) for number in range(len(made.machines))]
        cards = tuple(sorted(shares, key=lambda share: share.minor))
        return Outcome(on=names.index(pod["spec"]["nodeName"]), cpus=status.get("cpuset", ""), cards=cards)

    async def released(self, pods: Sequence[tuple[PlacementSet, int]]) -> None:
        """Return at once: koord-scheduler frees what a pod had when the pod is gone."""


def _amount(resources: Json, name: str) -> int:
    return int(quantities.parse(str(resources.get(name, 0))))
