"""How a plugin's slices get to the API server of `bench.node`: requests and seconds, beside the same writes by hand.

python -m bench.publishing FOLDER --gpus N
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from bench.node import NODE, folders, inventory, running, tell, transport, until
from dra.kube.resources import SLICES
from dra.kube.transport import JSON, Request, Response, Transport
from dra.model.slices import ResourceSlice
from kubeletplugin.application import KubeletPluginOptions, PluginApplication
from kubeletplugin.drivers.gpu.gpu_driver_factory import create_gpu_driver

TIMEOUT = 30.0


class Counting:
    """A transport that counts what goes through it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._sent: Counter[str] = Counter()

    async def send(self, request: Request, /) -> Response:
        """Count and pass on."""
        self._sent[request.method] += 1
        return await self._inner.send(request)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Count and pass on."""
        self._sent["WATCH"] += 1
        return self._inner.stream(request)

    async def close(self) -> None:
        """Pass on."""
        await self._inner.close()

    def lap(self) -> dict[str, int]:
        """Return what was counted since the last time."""
        counts = dict(self._sent)
        self._sent.clear()
        return counts


async def published(root: Path, gpus: int) -> dict[str, Any]:
    """Publish so many GPUs; then one fails; then the same slices by hand. They stay on the server."""
    path = inventory(root / "inventory.yaml", gpus)
    driver = create_gpu_driver(f"simulated:{path}", node=NODE, folder=root)
    counting = Counting(transport(root))
    application = PluginApplication([driver], counting, KubeletPluginOptions(node=NODE, directories=folders(root)))
    publisher = application.runners[0].publisher
    began = time.perf_counter()
    async with running(application):
        await until(lambda: publisher.synced)
        first = {"seconds": time.perf_counter() - began, "requests": counting.lap(), "slices": len(publisher.found())}
        written = await bodies(root)
        inventory(path, gpus, unhealthy=[{"minor": 3, "reason": "xid", "value": "79", "message": "fell off the bus"}])
        await until(lambda: any(device.taints for pool in driver.pools() for device in pool.devices))
        began = time.perf_counter()
        await until(lambda: publisher.synced and _tainted(publisher.found()))
        second = {"seconds": time.perf_counter() - began, "requests": counting.lap(), "slices": len(publisher.found())}
    return {"published": first, "one failed": second, "by hand": await by_hand(root, written)}


async def bodies(root: Path) -> list[bytes]:
    """Return the slices that are there, to be written once more for a driver that nobody has."""
    way = transport(root)
    listed = await way.send(Request(method="GET", path=SLICES.path(), timeout=TIMEOUT))
    await way.close()
    return [
        json.dumps({"metadata": {"generateName": "by-hand-"}, "spec": {**item["spec"], "driver": "by-hand.example"}})
        .encode()
        for item in json.loads(listed.body)["items"]
    ]  # fmt: skip


async def by_hand(root: Path, written: list[bytes]) -> dict[str, Any]:
    """Write slices one after the other, as a program that knows nothing would."""
    way = transport(root)
    began = time.perf_counter()
    for body in written:
        answer = await way.send(
            Request(method="POST", path=SLICES.path(), body=body, content_type=JSON, timeout=TIMEOUT)
        )
        if answer.status >= 300:  # noqa: PLR2004 - 2xx
            raise SystemExit(answer.body.decode())
    spent = time.perf_counter() - began
    await way.close()
    return {"seconds": spent, "requests": {"POST": len(written)}, "slices": len(written)}


def _tainted(slices: Iterable[ResourceSlice]) -> bool:
    return any(device.taints for resource_slice in slices for device in resource_slice.spec.devices or ())


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--gpus", type=int, required=True)
    chosen = parser.parse_args()
    tell(**asyncio.run(published(chosen.root, chosen.gpus)))


if __name__ == "__main__":
    main()
