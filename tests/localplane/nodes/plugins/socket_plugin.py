"""A DRA plugin over real sockets that does what a test tells it to, and remembers what it was asked."""

import asyncio
import os

from grpc import aio

from dra.wire import devicehealth, plugin, registration

DRIVER = "test.example.com"


class SocketPlugin:
    def __init__(
        self, folders, *, driver=DRIVER, instance="", versions=tuple(plugin.DraPluginVersion), kind="DRAPlugin"
    ):
        self.driver = driver
        suffix = f"-{instance}" if instance else ""
        self.endpoint = folders.plugins / driver / f"dra{suffix}.sock"
        self.registrar = folders.registry / f"{driver}{suffix}-reg.sock"
        self.kind = kind
        self.versions = list(versions)
        self.prepared = []
        """The claims of each call."""
        self.unprepared = []
        self.statuses = []
        self.answer = self.answer_all
        self.given_back = lambda request: {
            claim.uid: plugin.NodeUnprepareResourceResponse() for claim in request.claims
        }
        self.health = asyncio.Queue()
        self.refuse_registration = False
        self.silent = False
        self.info_calls = 0
        """How often somebody wanted to know whose socket this is."""

    async def __aenter__(self):
        self.endpoint.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._serving = aio.server()
        known = [version for version in plugin.DraPluginVersion if version in self.versions]
        plugin.add_to_server(self, self._serving, versions=known)
        devicehealth.add_to_server(self, self._serving)
        await self._listen(self._serving, self.endpoint)
        self._registering = aio.server()
        registration.add_to_server(self, self._registering)
        await self._listen(self._registering, self.registrar)
        return self

    async def __aexit__(self, *_):
        await self.withdraw()
        await self.die()

    async def withdraw(self):
        """Take the registration socket away."""
        await self._registering.stop(None)
        self.registrar.unlink(missing_ok=True)

    async def die(self):
        await self._serving.stop(None)

    async def _listen(self, server, path):
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            assert server.add_insecure_port(f"unix:{path}")
        finally:
            os.umask(mask)
        await server.start()

    def answer_all(self, request):
        """Give every claim one device, with a CDI name made of its uid."""
        return {
            claim.uid: plugin.NodePrepareResourceResponse(
                devices=[
                    {
                        "request_names": ["gpu"],
                        "pool_name": "n1",
                        "device_name": "gpu-0",
                        "cdi_device_ids": [f"{self.driver}/claim={claim.uid}-0"],
                    }
                ]
            )
            for claim in request.claims
        }

    def give_back_all(self, request):
        return {claim.uid: plugin.NodeUnprepareResourceResponse() for claim in request.claims}

    async def get_info(self, _request, _context):
        self.info_calls += 1
        if self.silent:
            await asyncio.get_running_loop().create_future()
        return registration.PluginInfo(
            type=self.kind, name=self.driver, endpoint=str(self.endpoint), supported_versions=self.versions
        )

    async def notify_registration_status(self, request, context):
        self.statuses.append((request.plugin_registered, request.error))
        if self.refuse_registration:
            await context.abort(5, "not now")
        return registration.RegistrationStatusResponse()

    async def node_prepare_resources(self, request, _context):
        self.prepared.append([(claim.namespace, claim.name, claim.uid) for claim in request.claims])
        return plugin.NodePrepareResourcesResponse(claims=self.answer(request))

    async def node_unprepare_resources(self, request, _context):
        self.unprepared.append([(claim.namespace, claim.name, claim.uid) for claim in request.claims])
        return plugin.NodeUnprepareResourcesResponse(claims=self.given_back(request))

    async def node_watch_resources(self, _request, _context):
        while (devices := await self.health.get()) is not None:
            yield devicehealth.NodeWatchResourcesResponse(devices=devices)
