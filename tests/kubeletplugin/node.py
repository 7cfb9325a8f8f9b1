"""A node with its folders, an API server in the same process, and plugins on it."""

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path

from dra.kube.clock import SYSTEM
from kubeletplugin.application import KubeletPluginOptions, PluginApplication
from kubeletplugin.driver_runner import PluginDirectories
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.kubeletplugin.driver import NAME, SmallDriver
from tests.kubeletplugin.kubelet import Kubelet
from tests.localplane.components import User

NODE = "n1"


class Node:
    def __init__(self, root):
        self.root = root
        self.registry, self.plugins, self.cdi = root / "registry", root / "plugins", root / "cdi"
        self.registry.mkdir()
        self.plugins.mkdir()
        self.server = ApiServer(clock=SYSTEM, random=seeded(1))
        self.user = User(self.server)
        self.applications = []

    async def create(self):
        await self.user.create("nodes", {"metadata": {"name": NODE}})

    def folders(self, *, pod_uid=""):
        return PluginDirectories(plugins=self.plugins, registry=self.registry, cdi=self.cdi, pod_uid=pod_uid)

    def application(self, *drivers, pod_uid="", server=None, transport=None, **options):
        transport = transport or LocalTransport(server or self.server)
        settings = KubeletPluginOptions(node=NODE, directories=self.folders(pod_uid=pod_uid), **options)
        return PluginApplication(drivers or (SmallDriver(),), transport, settings)

    @contextlib.asynccontextmanager
    async def plugin(self, *drivers, **how):
        """A running plugin; stopped at the end, as by SIGTERM."""
        application = self.application(*drivers, **how)
        task = asyncio.create_task(application.run())
        try:
            yield application
            if task.done():
                task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def kubelet(self):
        return Kubelet(self.registry)

    @contextlib.asynccontextmanager
    async def registered(self, *drivers, **how):
        """A running plugin and a kubelet's connection to its first driver."""
        name = drivers[0].name if drivers else NAME
        async with self.kubelet() as kubelet, self.plugin(*drivers, **how) as application:
            connection = await kubelet.register(name)
            connection.application = application
            connection.kubelet = kubelet
            yield connection

    async def claim(self, name, *results, namespace="default", allocated=True):
        """Create a claim, allocated as told; a result is a device's name or more."""
        found = [
            {"request": "r", "driver": NAME, "pool": NODE, **({"device": each} if isinstance(each, str) else each)}
            for each in results
        ]
        requests = [request_of(each) for each in dict.fromkeys(r["request"].partition("/")[0] for r in found) or ["r"]]
        for request in requests:
            if any(r["request"].startswith(f"{request['name']}/") for r in found):
                exactly = request.pop("exactly")
                subs = {r["request"].partition("/")[2] for r in found if r["request"].startswith(f"{request['name']}/")}
                request["firstAvailable"] = [{"name": sub, **exactly} for sub in sorted(subs)]
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        made = await self.user.create("resourceclaims", body, namespace=namespace)
        if not allocated:
            return made
        status = {"status": {"allocation": {"devices": {"results": found}}}}
        return await self.user.patch("resourceclaims", name, status, namespace=namespace, subresource="status")

    def cdi_files(self):
        return sorted(path.name for path in self.cdi.glob("*")) if self.cdi.is_dir() else []

    def checkpoint(self, driver=NAME):
        return self.plugins / driver / "checkpoint.json"

    def remembered(self, driver=NAME):
        """The uids of the claims in the checkpoint."""
        return set(_uids(json.loads(self.checkpoint(driver).read_text())))

    async def published(self, *, count=1):
        return await until_async(lambda: self._slices(count))

    async def _slices(self, count):
        found = await self.user.list("resourceslices")
        return found if len(found) >= count else None


@contextlib.asynccontextmanager
async def temporary():
    """A node whose path leaves room for sockets; pytest's own are long."""
    with tempfile.TemporaryDirectory(prefix="kp-", dir="/tmp", ignore_cleanup_errors=True) as root:
        found = Node(Path(root))
        await found.create()
        yield found


async def until_async(ask, *, within=60.0):
    async with asyncio.timeout(within):
        while not (found := await ask()):  # noqa: ASYNC110 - an API server makes no event
            await asyncio.sleep(0.02)
    return found


def request_of(name):
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com"}}


def _uids(value):
    if isinstance(value, dict):
        if "uid" in value:
            yield value["uid"]
        for each in value.values():
            yield from _uids(each)
    elif isinstance(value, list):
        for each in value:
            yield from _uids(each)
