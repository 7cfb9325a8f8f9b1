"""What `bench.plugin` measures, each in a process of its own: an API server, a plugin, a handler that does nothing.

    python -m bench.node api FOLDER          a server with a node, a device class and claims that are allocated
    python -m bench.node plugin FOLDER       the whole plugin, as ``dra-reserve kubelet-plugin`` makes it
    python -m bench.node empty FOLDER        the same protocol on the same kind of socket, and nothing behind it
    python -m bench.node reading FOLDER      the same, but it reads the claims
    python -m bench.node syncing FOLDER      the same, and it syncs a file and its folder as often as the plugin does

Each prints a line of JSON when it can be used, and runs until SIGTERM.
"""

import argparse
import asyncio
import contextlib
import cProfile
import json
import pstats
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from grpc import aio

from bench.kubelet import registered
from dra.kube.credentials import RestConfig, StaticCredentials
from dra.kube.http import HttpTransport
from dra.kube.resources import CLAIMS, NODES
from dra.kube.tasks import background_task
from dra.kube.transport import JSON, MERGE_PATCH, Request
from dra.model.meta import Uid
from dra.wire import plugin
from dra.wire.plugin import (
    Device,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from kubeletplugin.application import KubeletPluginOptions, PluginApplication
from kubeletplugin.atomic_files import write_atomically
from kubeletplugin.call_batcher import CallBatcher
from kubeletplugin.claims import MAX_CONCURRENT_READS
from kubeletplugin.driver_runner import PluginDirectories
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME
from kubeletplugin.drivers.gpu.gpu_driver_factory import create_gpu_driver
from kubeletplugin.socket_listener import SocketListener
from localplane import https_server
from localplane.server import ApiServer, WatchResponse

NODE: Final = "n1"
NAMESPACE: Final = "default"
COUNT: Final = 192
"""Claims; each has a GPU to itself. A plugin may ask its API server 200 times at once: not more than that."""

PAUSE: Final = 2.0
"""Seconds until it may do so again."""

_ACCESS: Final = "access.json"

POLL: Final = 0.001
"""Seconds between looks at how far a plugin has come."""

FILE_SIZE: Final = 4096
"""Bytes of the file that is synced: a checkpoint of some claims."""

LIMIT: Final = 60.0
"""Seconds after which it has failed."""


def name(index: int) -> str:
    """Return a claim's name."""
    return f"train-{index:03}"


def uid_of(claim: dict[str, Any]) -> str:
    """Return an object's uid."""
    uid: str = claim["metadata"]["uid"]
    return uid


def folders(root: Path) -> PluginDirectories:
    """Return the node's folders, which must exist on one with a kubelet."""
    directories = PluginDirectories(plugins=root / "plugins", registry=root / "registry", cdi=root / "cdi")
    for folder in (directories.plugins, directories.registry):
        folder.mkdir(exist_ok=True)
    return directories


def inventory(path: Path, gpus: int, **more: Any) -> Path:  # noqa: ANN401 - YAML
    """Write a node with so many GPUs; return the file."""
    described = {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "NodeInventory",
        "driverVersion": "570.86.15",
        "cudaDriverVersion": "12.8",
        "products": {
            "h100": {
                "productName": "NVIDIA H100 80GB HBM3",
                "memory": "81559Mi",
                "brand": "Nvidia",
                "architecture": "Hopper",
                "cudaComputeCapability": "9.0",
            }
        },
        "gpus": [{"product": "h100", "count": gpus, "numaNodes": [0, 1], "pcieRoots": ["pci0000:15", "pci0000:97"]}],
        **more,
    }
    draft = path.with_suffix(".draft")
    draft.write_text(yaml.safe_dump(described), encoding="utf-8")
    return draft.replace(path)


async def asked(server: ApiServer, method: str, path: str, body: dict[str, Any], content_type: str = JSON) -> Any:  # noqa: ANN401 - JSON
    """Ask a server in this process."""
    raw = json.dumps(body).encode()
    answer = await server.handle(Request(method=method, path=path, body=raw, content_type=content_type, timeout=30.0))
    if isinstance(answer, WatchResponse) or answer.status >= 300:  # noqa: PLR2004 - 2xx
        raise SystemExit(f"{method} {path}: {answer}")
    return json.loads(answer.body)


async def api(root: Path, ready: Callable[..., None], stopped: asyncio.Event) -> None:
    """Serve a node and its claims."""
    server = ApiServer()
    await asked(server, "POST", NODES.path(), {"metadata": {"name": NODE}})
    uids = []
    for index in range(COUNT):
        requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER_NAME}}]
        body = {"metadata": {"name": name(index)}, "spec": {"devices": {"requests": requests}}}
        uids.append(uid_of(await asked(server, "POST", CLAIMS.path(NAMESPACE), body)))
        results = [{"request": "gpu", "driver": DRIVER_NAME, "pool": NODE, "device": f"gpu-{index}"}]
        status = {"status": {"allocation": {"devices": {"results": results}}}}
        await asked(server, "PATCH", CLAIMS.path(NAMESPACE, name(index), "status"), status, MERGE_PATCH)
    async with https_server.serve_https(server.handle, folder=root) as endpoint:
        (root / _ACCESS).write_text(json.dumps({"url": endpoint.url, "token": endpoint.token}), encoding="utf-8")
        ready(uids=uids)
        await stopped.wait()


def transport(root: Path) -> HttpTransport:
    """Return the way to the server of `api`, without the seconds that reading a kubeconfig takes."""
    access = json.loads((root / _ACCESS).read_text(encoding="utf-8"))
    tls = ssl.create_default_context(cafile=root / "server.pem")
    return HttpTransport(StaticCredentials(RestConfig(access["url"], f"Bearer {access['token']}", tls)))


async def served(root: Path, ready: Callable[..., None], stopped: asyncio.Event, *, sync: bool) -> None:
    """Run the plugin."""
    driver = create_gpu_driver(f"simulated:{inventory(root / 'inventory.yaml', COUNT)}", node=NODE, folder=root)
    application = PluginApplication(
        [driver], transport(root), KubeletPluginOptions(node=NODE, directories=folders(root)), sync=sync
    )
    async with running(application):
        await until(lambda: application.runners[0].publisher.synced)
        ready(socket=str(application.runners[0].names.dra))
        await stopped.wait()


class Nothing:
    """Implements `dra.wire.plugin.DraPluginServicer`: an answer of the usual size for each claim."""

    async def node_prepare_resources(
        self,
        request: NodePrepareResourcesRequest,
        _: aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse],
        /,
    ) -> NodePrepareResourcesResponse:
        """Give each claim a device."""
        answers: dict[str, NodePrepareResourceResponse] = {
            claim.uid: NodePrepareResourceResponse(
                devices=[
                    Device(
                        request_names=["gpu"],
                        pool_name=NODE,
                        device_name="gpu-0",
                        cdi_device_ids=[f"{DRIVER_NAME}/claim={claim.uid}-0"],
                    )
                ]
            )
            for claim in request.claims
        }
        return NodePrepareResourcesResponse(claims=answers)

    async def node_unprepare_resources(
        self,
        request: NodeUnprepareResourcesRequest,
        _: aio.ServicerContext[NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse],
        /,
    ) -> NodeUnprepareResourcesResponse:
        """Take nothing back."""
        answers = {claim.uid: NodeUnprepareResourceResponse() for claim in request.claims}
        return NodeUnprepareResourcesResponse(claims=answers)


class Reading(Nothing):
    """Reads each claim before it answers, as every driver must, and makes nothing of it."""

    def __init__(self, way: HttpTransport) -> None:
        self._way = way
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_READS)

    async def node_prepare_resources(
        self,
        request: NodePrepareResourcesRequest,
        context: aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse],
        /,
    ) -> NodePrepareResourcesResponse:
        """Read the claims."""
        await asyncio.gather(*(self._read(claim.namespace, claim.name) for claim in request.claims))
        return await super().node_prepare_resources(request, context)

    async def _read(self, namespace: str, claim: str) -> None:
        async with self._turns:
            await self._way.send(Request(method="GET", path=CLAIMS.path(namespace, claim), timeout=LIMIT))


class Syncing(Reading):
    """Reads each claim, and makes a file durable before each answer; calls that wait share it, as in the plugin."""

    def __init__(self, way: HttpTransport, file: Path) -> None:
        super().__init__(way)
        self._file = file
        self._lock = asyncio.Lock()
        self._batcher = CallBatcher(self._sync, exclusively=self._alone)

    async def node_prepare_resources(
        self,
        request: NodePrepareResourcesRequest,
        context: aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse],
        /,
    ) -> NodePrepareResourcesResponse:
        """Read the claims, and sync."""
        answer = await super().node_prepare_resources(request, context)
        await self._batcher.submit({Uid(claim.uid): None for claim in request.claims})
        return answer

    async def node_unprepare_resources(
        self,
        request: NodeUnprepareResourcesRequest,
        context: aio.ServicerContext[NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse],
        /,
    ) -> NodeUnprepareResourcesResponse:
        """Sync."""
        await self._batcher.submit({Uid(claim.uid): None for claim in request.claims})
        return await super().node_unprepare_resources(request, context)

    async def _sync(self, claims: Mapping[Uid, None]) -> Mapping[Uid, None]:
        await asyncio.to_thread(write_atomically, self._file, bytes(FILE_SIZE), mode=0o600, sync=True)
        return claims

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._lock:
            yield


async def answering(
    root: Path, service: plugin.DraPluginServicer, ready: Callable[..., None], stopped: asyncio.Event
) -> None:
    """Serve what is no plugin."""
    listener = SocketListener(
        root / "other.sock", option="FOLDER", services=lambda server: plugin.add_to_server(service, server)
    )
    await listener.open()
    ready(socket=str(listener.path))
    await stopped.wait()
    await listener.close(grace=1.0)


@contextlib.asynccontextmanager
async def running(application: PluginApplication) -> AsyncIterator[None]:
    """Run a plugin for as long as the block lasts, registered with a kubelet: before, it publishes nothing."""
    (driver,) = application.runners
    async with background_task(application.run(), name="plugin"):
        await until(driver.names.registration.exists)
        await registered(driver.names.registration)
        yield


async def until(reached: Callable[[], bool]) -> None:
    """Wait for a plugin, which must not know that it is measured."""
    async with asyncio.timeout(LIMIT):
        while not reached():  # noqa: ASYNC110 - it rings no bell for us
            await asyncio.sleep(POLL)


def tell(**facts: Any) -> None:  # noqa: ANN401 - JSON
    """Print what whoever started us waits for."""
    print(json.dumps(facts), flush=True)


async def run(subject: str, root: Path, *, sync: bool) -> None:
    """Run a subject until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    if subject == "api":
        await api(root, tell, stopped)
    elif subject == "plugin":
        await served(root, tell, stopped, sync=sync)
    elif subject == "empty":
        await answering(root, Nothing(), tell, stopped)
    else:
        way = transport(root)
        service = Reading(way) if subject == "reading" else Syncing(way, root / "synced")
        await answering(root, service, tell, stopped)
        await way.close()


def main() -> None:
    """Run one subject."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subject", choices=["api", "plugin", "empty", "reading", "syncing"])
    parser.add_argument("root", type=Path)
    parser.add_argument("--no-sync", action="store_true", help="the checkpoint is written without fsync")
    parser.add_argument("--profile", action="store_true", help="with cProfile, on standard error")
    chosen = parser.parse_args()
    profile = cProfile.Profile() if chosen.profile else None
    with profile or contextlib.nullcontext():
        asyncio.run(run(chosen.subject, chosen.root, sync=not chosen.no_sync))
    if profile:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
