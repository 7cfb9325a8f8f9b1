"""ResourceSlices (resource.k8s.io/v1): which devices a driver offers where."""

from typing import Any

import msgspec

from dra.model.meta import ObjectMeta, Struct
from dra.model.nodes import NodeSelector
from dra.model.taints import DeviceTaint


class ResourcePool(Struct, frozen=True):
    """``spec.pool``: only the slices of the highest generation count, and only if all of them are there."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class Device(Struct, frozen=True):
    """``spec.devices[]``; attributes and capacities stay plain data, CEL reads them."""

    name: str = ""
    attributes: dict[str, Any] | None = None
    capacity: dict[str, Any] | None = None
    taints: list[DeviceTaint] | None = None
    consumes_counters: list[dict[str, Any]] | None = None
    allow_multiple_allocations: bool = False
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    node_allocatable_resources: dict[str, Any] | None = None
    """What it is or costs of the node's own resources (alpha: DRANodeAllocatableResources), as 1.37 has it."""
    node_allocatable_resource_mappings: dict[str, Any] | None = None
    """The same, as 1.36 has it."""


class ResourceSliceSpec(Struct, frozen=True):
    """``spec``."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] | None = None
    shared_counters: list[dict[str, Any]] | None = None


class ResourceSlice(Struct, frozen=True):
    """A part of a driver's pool of devices."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec = ResourceSliceSpec()


class TaintedDevice(Struct, frozen=True):
    """``spec.devices[]``, of which only the taints are asked for."""

    name: str = ""
    taints: list[DeviceTaint] | None = None


class ResourceSliceTaintsSpec(Struct, frozen=True):
    """``spec``, likewise."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    devices: list[TaintedDevice] | None = None
    """Those with taints; the others are let go as soon as they are read."""

    offered: int = msgspec.field(default=0, name="-")
    """How many there were."""

    def __post_init__(self) -> None:
        if not self.offered:
            msgspec.structs.force_setattr(self, "offered", len(self.devices or ()))
        msgspec.structs.force_setattr(self, "devices", [d for d in self.devices or () if d.taints] or None)


class ResourceSliceTaints(Struct, frozen=True):
    """A ResourceSlice without all that makes it big: a cluster has thousands, and eviction reads them all."""

    metadata: ObjectMeta
    spec: ResourceSliceTaintsSpec = ResourceSliceTaintsSpec()
