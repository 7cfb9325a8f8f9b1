"""The cards and CPUs that claims were given, each with its amounts."""

from collections.abc import Iterable, Iterator

from dra.api.koordinator import well_known
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.pod_reports.device_allocated import card_resources
from dra.engine.pod_reports.resource_status import reported_cpus
from dra.model import quantities
from dra.model.claims import DeviceRequestAllocationResult, ResourceClaim
from dra.model.meta import Struct


class CardShare(Struct, frozen=True):
    """A card that a claim was given, or a part of one."""

    claim: str
    node: str
    """The pool of the card, which has the name of its node."""

    device: str
    memory: str = ""
    """Bytes, as a quantity; empty if unknown."""

    ratio: str = ""
    """Percent of the card's memory, rounded down; empty if unknown."""

    core: str = "0"
    """Percent of the card's compute."""


class BoundCpus(Struct, frozen=True):
    """The CPUs that a claim was given on a node."""

    claim: str
    node: str
    count: int
    cpuset: str = ""
    """The CPUs, such as ``2-3``; empty until the driver has reported them."""


def card_shares(cluster: ClusterState, claims: Iterable[ResourceClaim]) -> Iterator[CardShare]:
    """Yield the cards of claims; a card that no driver publishes any more has no ratio."""
    for claim in claims:
        for result in _results(claim, well_known.GPU_DRIVER):
            amounts = card_resources(result, cluster.cards.find(result.pool, result.device))
            yield CardShare(
                claim=claim.metadata.name,
                node=result.pool,
                device=result.device,
                memory=amounts.get(well_known.RESOURCE_GPU_MEMORY, ""),
                ratio=amounts.get(well_known.RESOURCE_GPU_MEMORY_RATIO, ""),
                core=amounts.get(well_known.RESOURCE_GPU_CORE, "0"),
            )


def bound_cpus(claims: Iterable[ResourceClaim]) -> Iterator[BoundCpus]:
    """Yield the CPUs of claims, one for each claim that has any."""
    for claim in claims:
        results = _results(claim, well_known.CPU_DRIVER)
        # An aligned claim requests the same CPUs of the node's device and of the device of a NUMA node.
        results = [result for result in results if result.device == well_known.CPUS_OF_NODE] or results
        if results:
            yield BoundCpus(
                claim=claim.metadata.name,
                node=results[0].pool,
                count=sum(map(_cpu_count, results)),
                cpuset=str(reported_cpus(claim.status.devices or ())),
            )


def _results(claim: ResourceClaim, driver: str) -> list[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    return [result for result in results if result.driver == driver and not result.admin_access]


def _cpu_count(result: DeviceRequestAllocationResult) -> int:
    """Return the CPUs of a result: a device of which no capacity is consumed is a single CPU."""
    return int(quantities.parse((result.consumed_capacity or {}).get(well_known.CPU_CAPACITY, "1")))
