"""A driver without hardware: devices by name, each a file in the container and a variable."""

import asyncio

import msgspec

from dra.model.slices import Device
from kubeletplugin.contract import (
    ContainerEdits,
    DeviceHealthState,
    DeviceNode,
    Pool,
    PreparedClaim,
    PreparedDevice,
    PrepareError,
)

NAME = "gpu.example.com"


def device(name, **fields):
    return Device(name=name, **fields)


class SmallDriver:
    """Implements `kubeletplugin.contract.Driver`; tests change what it says and call `tell`."""

    def __init__(self, *devices, name=NAME, pool="n1"):
        self.name = name
        self.pool = pool
        self.devices = devices or (device("gpu-0"), device("gpu-1"))
        self.more_pools = ()
        self.sick = {}
        """Device → message."""
        self.enforced = []
        self.refuses = {}
        """Claim's name → why."""
        self.gate = None
        """An event that `enforce` waits for, if there is one."""
        self._told = []

    def pools(self):
        return (Pool(name=self.pool, devices=tuple(self.devices)), *self.more_pools)

    def health(self):
        return tuple(
            DeviceHealthState(
                pool=self.pool, device=d.name, healthy=d.name not in self.sick, message=self.sick.get(d.name, "")
            )
            for d in self.devices
        )

    def tell(self):
        for queue in self._told:
            queue.put_nowait(None)

    async def changes(self):
        queue = asyncio.Queue()
        self._told.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._told.remove(queue)

    def prepare(self, request, others):
        del others
        if request.claim.key[1] in self.refuses:
            raise PrepareError(f"{request.claim}: {self.refuses[request.claim.key[1]]}")
        devices = tuple(
            PreparedDevice(
                requests=(each.request.partition("/")[0],),
                pool=each.pool,
                device=each.device,
                share=each.share_id or "",
                admin=bool(each.admin_access),
                edits=ContainerEdits(
                    env=(f"DEVICE_{each.device.upper().replace('-', '_')}={request.claim.key[1]}",),
                    device_nodes=(DeviceNode(path="/dev/null"),),
                ),
            )
            for each in request.results
        )
        return PreparedClaim(claim=request.claim, driver=self.name, devices=devices)

    async def enforce(self, preparations):
        self.enforced.append(sorted("/".join(p.claim.key) for p in preparations))
        if self.gate is not None:
            await self.gate.wait()


def renamed(found, name):
    return msgspec.structs.replace(found, name=name)
