"""The device of a node's CPUs as an empty node of the same kind would publish it.

Three capacities and attributes of the device fall with use, because the scheduler cannot know which CPUs are free. Who
copies the slices of a used node to foresee a new one would find it as fragmented as the old one.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dra.api.koordinator.well_known import CPU_DRIVER, CPUS_OF_NODE, WHOLE_CORE_CAPACITY
from dra.model import quantities
from dra.model.slices import Device

_DISTINCT_CORE_CAPACITY: Final = "distinctCoreCPUs"


def unused_device(driver: str, device: Device) -> Device:
    """Return a device without what use has done to it: the driver's taints, and the fragmentation of a node's CPUs."""
    device = msgspec.structs.replace(device, taints=None)
    attributes, capacity = device.attributes or {}, device.capacity or {}
    count, threads = _integer(attributes, "dra.cpu/numCPUs"), _integer(attributes, "threadsPerCore")
    if driver != CPU_DRIVER or device.name != CPUS_OF_NODE or not (count and threads):
        return device
    cores, of_numa_node = -(-count // threads), _integer(attributes, "numaNodeCPUs")
    values = {WHOLE_CORE_CAPACITY: count // threads * threads, _DISTINCT_CORE_CAPACITY: cores}
    free = {"freeCores": cores, "freeNUMANodeCPUs": of_numa_node}
    return msgspec.structs.replace(
        device,
        attributes={
            k: {"int": max(v.get("int", 0), free.get(k, 0))} if k in free else v for k, v in attributes.items()
        },
        capacity={
            name: {**amount, "value": str(max(int(quantities.parse(str(amount["value"]))), values[name]))}
            if name in values
            else amount
            for name, amount in capacity.items()
        },
    )


def _integer(attributes: Mapping[str, Any], name: str) -> int:
    value = (attributes.get(name) or {}).get("int")
    return value if isinstance(value, int) else 0
