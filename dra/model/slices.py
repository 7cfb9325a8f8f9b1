"""ResourceSlices (resource.k8s.io/v1): the devices that a driver publishes, with the nodes that can use them."""

from collections.abc import Hashable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec

from dra.model.meta import ObjectMeta, Struct
from dra.model.nodes import NodeSelector
from dra.model.taints import DeviceTaint


class ResourcePool(Struct, frozen=True):
    """``spec.pool``: only the slices with the highest generation count, and only if all of them exist."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class Device(Struct, frozen=True):
    """``spec.devices[]`` of a ResourceSlice; attributes and capacities stay plain data, as CEL reads them."""

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
    """Resources of the node that the device is or costs (alpha: DRANodeAllocatableResources), as in 1.37."""
    node_allocatable_resource_mappings: dict[str, Any] | None = None
    """Resources of the node that the device is, as in 1.36."""


class ResourceSliceSpec(Struct, frozen=True):
    """``spec`` of a ResourceSlice."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] | None = None
    shared_counters: list[dict[str, Any]] | None = None


class ResourceSlice(Struct, frozen=True):
    """A ResourceSlice: a part of a driver's pool of devices."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec = ResourceSliceSpec()

    @property
    def pool(self) -> tuple[str, str]:
        """The driver and the name of the pool."""
        return (self.spec.driver, self.spec.pool.name)

    @property
    def generation(self) -> int:
        """The generation of the pool to which the slice belongs."""
        return self.spec.pool.generation


class PoolSlice(Protocol):
    """A ResourceSlice, or what is kept of one: at least its pool and its generation."""

    @property
    def pool(self) -> Hashable:
        """The pool, as the caller tells pools apart."""
        ...

    @property
    def generation(self) -> int:
        """The generation of the pool to which the slice belongs."""
        ...


PoolSliceT = TypeVar("PoolSliceT", bound=PoolSlice)


def newest_of_pools(slices: Iterable[PoolSliceT]) -> list[PoolSliceT]:
    """Return the slices of the highest generation of each pool, in their order: no others count for a scheduler."""
    given = list(slices)
    newest: dict[Hashable, int] = {}
    for published in given:
        newest[published.pool] = max(published.generation, newest.get(published.pool, published.generation))
    return [published for published in given if published.generation == newest[published.pool]]


class ManagedFieldsEntry(Struct, frozen=True):
    """``metadata.managedFields[]`` of an object, without the fields: who wrote, and in which version of the API."""

    manager: str = ""
    api_version: str = ""


class ManagedMeta(ObjectMeta, frozen=True):
    """``metadata`` of an object with the names of its writers."""

    managed_fields: list[ManagedFieldsEntry] | None = None


class ManagedResourceSlice(ResourceSlice, frozen=True):
    """A ResourceSlice with the names of its writers, as diagnoses read it."""

    metadata: ManagedMeta


class StringAttribute(Struct, frozen=True):
    """``spec.devices[].attributes[]`` of a ResourceSlice, as far as it is a string."""

    string: str | None = None


class GpuAttributes(Struct, frozen=True):
    """``spec.devices[].attributes`` of a ResourceSlice, reduced to what identifies a GPU in reports about its use."""

    uuid: StringAttribute | None = None
    """As drivers of GPUs name it, NVIDIA's among them."""


class TaintedDevice(Struct, frozen=True):
    """``spec.devices[]`` of a ResourceSlice, reduced to taints and UUID."""

    name: str = ""
    taints: list[DeviceTaint] | None = None
    attributes: GpuAttributes | None = None

    @property
    def uuid(self) -> str:
        """The UUID of the device; empty if it has none."""
        attribute = self.attributes.uuid if self.attributes is not None else None
        return (attribute.string if attribute is not None else None) or ""


class ResourceSliceTaintsSpec(Struct, frozen=True):
    """``spec`` of a ResourceSlice, reduced to the taints of devices."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    devices: list[TaintedDevice] | None = None
    """Devices with taints; other devices are dropped as soon as they are decoded."""

    offered: int = msgspec.field(default=0, name="-")
    """Number of devices in the slice, with and without taints."""

    uuids: dict[str, str] = msgspec.field(default_factory=dict, name="--")
    """Device → UUID, for devices that have one."""

    def __post_init__(self) -> None:
        if not self.offered:
            msgspec.structs.force_setattr(self, "offered", len(self.devices or ()))
            msgspec.structs.force_setattr(self, "uuids", {d.name: d.uuid for d in self.devices or () if d.uuid})
        msgspec.structs.force_setattr(self, "devices", [d for d in self.devices or () if d.taints] or None)


class ResourceSliceTaints(Struct, frozen=True):
    """A ResourceSlice without its large fields: a cluster has thousands, and eviction reads all of them."""

    metadata: ObjectMeta
    spec: ResourceSliceTaintsSpec = ResourceSliceTaintsSpec()
