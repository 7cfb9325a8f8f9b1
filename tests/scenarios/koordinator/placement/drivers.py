"""The drivers of a machine that is not there: what they publish, and the CPUs that the CPU driver chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.api.koordinator import well_known
from dra.engine.cpus.cpu_assignments import CpuAssignments
from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.node_policies import parse_node_labels
from dra.model import quantities
from dra.model.meta import Uid
from kubeletplugin.contract import ClaimIdentity, OpaqueParameters, PreparedClaim, PrepareError, PrepareRequest
from kubeletplugin.drivers.cpu.cpu_allocator import allocate_cpus
from kubeletplugin.drivers.cpu.node_device import build_node_device
from kubeletplugin.drivers.cpu.prepared_cpus import held_cpus, prepared_state
from kubeletplugin.drivers.gpu.devices import GpuPublishOptions, build_gpu_devices
from kubeletplugin.inventory.gpus import Gpu
from tests.scenarios import objects
from tests.scenarios.koordinator.placement import manifests
from tests.scenarios.koordinator.placement.outcomes import Outcome, Share
from tests.scenarios.koordinator.placement.sets import VENDOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dra.model.claims import AllocationResult
    from tests.scenarios.koordinator.placement.sets import PlacementSet

Json = dict[str, Any]

UNPREPARED: Final = "bound, and never prepared: "


def device_classes() -> list[Json]:
    """Return the classes of both drivers, with the resource name of whole cards."""
    found = [objects.device_class(name, driver=name) for name in (well_known.CPU_DRIVER, well_known.GPU_DRIVER)]
    found[1]["spec"]["extendedResourceName"] = VENDOR
    return found


class Drivers:
    """The drivers of one machine of a set."""

    def __init__(self, made: PlacementSet, number: int) -> None:
        self.node: Final = made.node(number)
        self._number: Final = number
        self._machine: Final = made.machines[number]
        topology = manifests.topology(self._machine)
        self._nobodys: Final = CpuAssignments(topology=topology, reserved=CpuSet(range(self._machine.threads)))
        labels = manifests.node(made, number)["metadata"]["labels"]
        self._policies, _ = parse_node_labels(labels)
        self._prepared: Final[dict[str, PreparedClaim]] = {}

    def slices(self) -> list[Json]:
        """Return the slices that the drivers publish now."""
        cpus = build_node_device(
            self._nobodys.topology,
            allocatable=self._nobodys.allocatable,
            policies=self._policies,
            held=held_cpus(self._prepared.values()),
        )
        cards = [
            Gpu(
                minor=minor,
                index=minor,
                uuid=f"GPU-{self.node}-{minor}",
                memory=size * manifests.MEBI,
                pcie_root=manifests.pcie_root(minor),
                numa_node=manifests.numa_node(self._machine, minor),
            )
            for minor, size in enumerate(self._machine.cards)
        ]
        found = [self._slice(well_known.CPU_DRIVER, cpus)]
        if cards:
            found.append(self._slice(well_known.GPU_DRIVER, build_gpu_devices(cards, GpuPublishOptions(shares=True))))
        return found

    def _slice(self, driver: str, devices: Iterable[object]) -> Json:
        made = objects.resource_slice(self.node, driver=driver, devices=[], node=self.node)
        made["metadata"]["name"] = f"{self.node}-{driver}"
        made["spec"]["devices"] = [msgspec.to_builtins(each) for each in devices]
        return made

    def prepare(self, pod: str, allocations: Mapping[Uid, AllocationResult]) -> Outcome:
        """Return the outcome of a pod with these allocations, by the uids of its claims."""
        cpus, shares = CpuSet(), []
        for uid, allocation in allocations.items():
            for result in allocation.devices.results or ():
                if result.driver == well_known.GPU_DRIVER:
                    consumed = result.consumed_capacity or {}
                    minor = int(result.device.removeprefix("gpu-"))
                    core, memory = (int(quantities.parse(consumed[name])) for name in ("core", "memory"))
                    shares.append(Share(minor=minor, core=core, memory=memory))
            try:
                cpus |= self._prepare_cpus(f"{pod}/{uid}", allocation)
            except PrepareError as error:
                return Outcome(on=self._number, why=f"{UNPREPARED}{error}")
        return Outcome(on=self._number, cpus=str(cpus), cards=tuple(sorted(shares, key=lambda share: share.minor)))

    def _prepare_cpus(self, key: str, allocation: AllocationResult) -> CpuSet:
        results = tuple(each for each in allocation.devices.results or () if each.driver == well_known.CPU_DRIVER)
        if not results:
            return CpuSet()
        configuration = tuple(
            OpaqueParameters(requests=tuple(each.get("requests") or ()), parameters=each["opaque"]["parameters"])
            for each in map(msgspec.to_builtins, allocation.devices.config or ())
            if each["opaque"]["driver"] == well_known.CPU_DRIVER
        )
        claim = ClaimIdentity(key=("placement", key), uid=Uid(key))
        request = PrepareRequest(claim=claim, results=results, configuration=configuration)
        chosen = allocate_cpus(self._nobodys, request, self._prepared.values(), policies=self._policies)
        state = prepared_state(request, chosen)
        self._prepared[key] = PreparedClaim(claim=claim, driver=well_known.CPU_DRIVER, devices=(), state=state)
        return parse(state["requests"]["cpus"])

    def release(self, pod: str) -> None:
        """Forget the claims of a pod."""
        for key in [key for key in self._prepared if key.startswith(f"{pod}/")]:
            del self._prepared[key]
