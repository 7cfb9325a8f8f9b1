"""The Device API as pydantic models: Koordinator's report of the devices of one node.

A Device has the name of its Node. Machines write Devices, so the models are lenient: unknown fields are ignored.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from dra.api.object_fields import FreeFormObject, Labels, LenientModel, ObjectMetadata, ResourceQuantities

GROUP: Final = "scheduling.koordinator.sh"
VERSION: Final = "v1alpha1"
KIND: Final = "Device"
PLURAL: Final = "devices"

Int32 = Annotated[StrictInt, WithJsonSchema({"type": "integer", "format": "int32"})]


class DeviceType(StrEnum):
    """The type of a device."""

    GPU = "gpu"
    FPGA = "fpga"
    RDMA = "rdma"


class DeviceTopology(LenientModel):
    """The location of a device in its machine."""

    socket_id: Annotated[Int32, Field(alias="socketID")]
    """The CPU socket; -1 if unknown."""

    node_id: Annotated[Int32, Field(alias="nodeID")]
    """The NUMA node."""

    pcie_id: Annotated[StrictStr, Field(alias="pcieID")]
    """The PCIe root or switch that the device is attached to."""

    bus_id: Annotated[StrictStr, Field(alias="busID")] = ""
    """The PCI address: domain, bus, device and function."""


class DeviceInfo(LenientModel):
    """One device of a node."""

    type: StrictStr = ""
    """The type of the device: gpu, fpga or rdma."""

    id: StrictStr = ""
    """The UUID of a GPU, the PCI address of other devices."""

    minor: Int32 | None = None
    """The minor number, from 0 on; a pod's annotation device-allocated names the device by this number."""

    module_id: Annotated[Int32 | None, Field(alias="moduleID")] = None
    """The physical number of the device."""

    labels: Labels = {}
    """Properties by which pods select devices."""

    health: StrictBool
    """Whether the device works. The scheduler gives no pod a device that does not."""

    resources: ResourceQuantities = {}
    """The capacity of the device by resource name."""

    topology: DeviceTopology | None = None
    """The location of the device; absent if it is not known completely."""

    vf_groups: tuple[FreeFormObject, ...] = ()
    """The virtual functions of the device, in groups."""

    conditions: tuple[FreeFormObject, ...] = ()
    """The conditions of the device."""


class DeviceSpec(LenientModel):
    """The devices of a node."""

    devices: tuple[DeviceInfo, ...] = ()


class DeviceAllocationItem(LenientModel):
    """The devices that one consumer was given."""

    namespace: StrictStr = ""
    """The namespace of the claim."""

    name: StrictStr = ""
    """The name of the claim."""

    uuid: StrictStr = ""
    """The uid of the claim."""

    minors: tuple[Int32, ...] = ()
    """The minor numbers of the devices."""


class DeviceAllocation(LenientModel):
    """The devices of one type that are in use."""

    type: StrictStr = ""
    entries: tuple[DeviceAllocationItem, ...] = ()


class DeviceStatus(LenientModel):
    """The allocations of a node's devices."""

    allocations: tuple[DeviceAllocation, ...] = ()


class Device(LenientModel):
    """The devices of the Node of the same name, and their allocations."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: DeviceSpec = DeviceSpec()
    status: DeviceStatus = DeviceStatus()
