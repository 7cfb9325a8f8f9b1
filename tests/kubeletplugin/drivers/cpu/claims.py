"""Claims on CPUs, as a driver is asked to prepare them."""

from dra.model.claims import DeviceRequestAllocationResult
from kubeletplugin.contract import ClaimIdentity, OpaqueParameters, PrepareRequest


def claim(name):
    return ClaimIdentity(key=("ml", name), uid=f"uid-{name}")


def cpu(number, *, request="cpus", **fields):
    return DeviceRequestAllocationResult(
        request=request, driver="cpu.reserve.dra", pool="n1", device=f"cpu-{number}", **fields
    )


def part(node, amount, *, share="share-1", request="cpus"):
    """Return a part of a NUMA node."""
    return DeviceRequestAllocationResult(
        request=request,
        driver="cpu.reserve.dra",
        pool="n1",
        device=f"numa-{node}",
        share_id=share,
        consumed_capacity={"dra.cpu/cpu": amount} if amount else None,
    )


def of_numa_node(node, amount, *, request="numa", share="share-2"):
    """Return the NUMA node of an aligned claim, with the CPUs that the claim consumes there."""
    return DeviceRequestAllocationResult(
        request=request,
        driver="cpu.reserve.dra",
        pool="n1",
        device=f"numa-{node}",
        share_id=share,
        consumed_capacity={"numaCPUs": str(amount), "wholeCoreCPUs": "0", "distinctCoreCPUs": "0"},
    )


def of_node(amount, *, whole_cores=None, distinct_cores=None, share="share-1", request="cpus"):
    """Return a number of CPUs of the node's device."""
    consumed = {"dra.cpu/cpu": str(amount)}
    if whole_cores is not None:
        consumed["wholeCoreCPUs"] = str(whole_cores)
    if distinct_cores is not None:
        consumed["distinctCoreCPUs"] = str(distinct_cores)
    return DeviceRequestAllocationResult(
        request=request,
        driver="cpu.reserve.dra",
        pool="n1",
        device="cpus",
        share_id=share,
        consumed_capacity=consumed,
    )


def asks(name, *results, config=None):
    """Return what a claim asks for; config: of all requests, or request → config."""
    entries = []
    if config is not None:
        body = {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig"} | config
        entries.append(OpaqueParameters(requests=(), parameters=body))
    return PrepareRequest(claim=claim(name), results=results, configuration=tuple(entries))
