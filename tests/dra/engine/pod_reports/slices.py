"""ResourceSlices with GPUs, as the driver publishes them."""

from dra.model.meta import ObjectMeta
from dra.model.slices import Device, ResourcePool, ResourceSlice, ResourceSliceSpec

SMALL = "16Gi"
LARGE = "81559Mi"


def gpu(minor, memory, *, name=None):
    """The attributes of a GPU whose uuid the slice completes."""
    return name or f"gpu-{minor}", minor, memory


def resource_slice(node, *gpus, name=None, driver="gpu.reserve.dra"):
    devices = [
        Device(
            name=device,
            attributes={"minor": {"int": minor}, "uuid": {"string": f"GPU-{node}-{minor}"}},
            capacity={"memory": {"value": memory}} if memory else None,
        )
        for device, minor, memory in gpus
    ]
    spec = ResourceSliceSpec(driver=driver, pool=ResourcePool(name=node), node_name=node, devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name or f"{node}-gpu"), spec=spec)
