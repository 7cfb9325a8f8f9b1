"""kube-scheduler on a cluster of its own, with translated pods and what the drivers publish."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.model.claims import AllocationResult
from tests.cluster.cluster import Cluster
from tests.cluster.options import ClientLimits, Component, Options
from tests.scenarios.eventually import eventually
from tests.scenarios.koordinator.placement import engine, manifests
from tests.scenarios.koordinator.placement.drivers import Drivers, device_classes
from tests.scenarios.koordinator.placement.outcomes import Outcome, Record
from tests.scenarios.koordinator.placement.play import namespace_of_cluster, play
from tests.scenarios.resources import CLAIMS, RESOURCE_SLICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.scenarios.koordinator.placement.sets import PlacementSet
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]


@contextmanager
def running() -> Iterator[Path]:
    """Run a cluster as everybody has it, without kubelets, and yield the administrator's kubeconfig."""
    limits = ClientLimits(qps=200, burst=400)
    with Cluster(Options(nodes=0, without=frozenset({Component.NODES}), scheduler_limits=limits)) as cluster:
        yield cluster.admin_kubeconfig


async def play_all(admin: Path, sets: Sequence[PlacementSet]) -> list[Record]:
    """Play the sets and return what kube-scheduler made of them."""
    async with namespace_of_cluster(admin) as namespace:
        for each in device_classes():
            await namespace.create(each)
        return await play(namespace, sets, Stock(namespace))


class Stock:
    """kube-scheduler, and drivers without kubelets."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace: Final = namespace
        self._drivers: Final[dict[str, Drivers]] = {}
        self._templates: Final[set[str]] = set()
        self._published: Final[dict[str, Json]] = {}

    async def machines(self, made: PlacementSet) -> None:
        """Create Nodes and slices."""
        for number in range(len(made.machines)):
            await self._namespace.create(manifests.node(made, number))
            drivers = Drivers(made, number)
            self._drivers[drivers.node] = drivers
            await self._publish(drivers)

    async def _publish(self, drivers: Drivers) -> None:
        for each in drivers.slices():
            name = each["metadata"]["name"]
            if name not in self._published:
                await self._namespace.create(each)
            elif self._published[name] != each:
                devices = {"spec": {"devices": each["spec"]["devices"]}}
                await self._namespace.api.patch(RESOURCE_SLICES, name, devices)
            self._published[name] = each

    async def pod(self, made: PlacementSet, step: int) -> Json | Outcome:
        """Return the translated pod for a step, once the templates that it names are there."""
        admitted = engine.admit(manifests.pod(made, step, scheduler="default-scheduler"))
        if isinstance(admitted, Outcome):
            return admitted
        translated, templates = admitted
        for each in templates:
            name = each["metadata"]["name"]
            if name not in self._templates:
                self._templates.add(name)
                each["metadata"]["namespace"] = self._namespace.name
                await self._namespace.create(each)
        return translated

    async def placed(self, made: PlacementSet, step: int, pod: Json) -> Outcome:
        """Return the outcome that the claims tell, after the drivers have prepared them."""
        names = [each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses", ())]
        if extended := pod["status"].get("extendedResourceClaimStatus"):
            names.append(extended["resourceClaimName"])
        claims = [await self._namespace.get(CLAIMS, name) for name in names]
        allocations = {
            each["metadata"]["uid"]: msgspec.convert(each["status"]["allocation"], AllocationResult) for each in claims
        }
        drivers = self._drivers[pod["spec"]["nodeName"]]
        outcome = drivers.prepare(made.pod(step), allocations)
        await self._publish(drivers)
        return outcome

    async def released(self, pods: Sequence[tuple[PlacementSet, int]]) -> None:
        """Wait until the claims of the pods are gone, and publish what is free again."""
        names = {made.pod(step) for made, step in pods}

        async def remaining() -> set[str]:
            owners = (owner for claim in await self._namespace.all(CLAIMS) for owner in _owners(claim))
            return names.intersection(owners)

        await eventually(remaining, until=lambda left: not left, saying="the claims of deleted pods are gone")
        for made, step in pods:
            for number in range(len(made.machines)):
                drivers = self._drivers[made.node(number)]
                drivers.release(made.pod(step))
                await self._publish(drivers)


def _owners(claim: Json) -> list[str]:
    return [each["name"] for each in claim["metadata"].get("ownerReferences", ())]
