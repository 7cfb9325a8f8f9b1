"""As much of a kubelet as a plugin gets to see, driven by hand; it insists on what a real one insists on."""

import asyncio
import contextlib
import stat

from grpc import aio

from dra.wire import devicehealth, plugin
from dra.wire.plugin import Claim, DraPluginClient, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest
from dra.wire.registration import InfoRequest, RegistrationClient, RegistrationStatus

KNOWN = {version.value for version in plugin.DraPluginVersion}
CALL_TIMEOUT = 45.0
GET_INFO_TIMEOUT = 1.0
"""Seconds after which a real kubelet gives up; on a machine that is busy with others, tests count CPU seconds."""


async def until(condition, *, within=60.0, saying=""):
    """Return what a condition comes to, as soon as it is true."""
    try:
        async with asyncio.timeout(within):
            while not (found := condition()):  # noqa: ASYNC110 - sockets make no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {within} s: {saying or condition}") from None
    return found


def _is_socket(path):
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:  # removed since the directory was read: a plugin replaces its sockets in a thread
        return False


class Kubelet:
    """Use as a context manager: its connections end with it."""

    def __init__(self, registry):
        self.registry = registry
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._stack.aclose()

    async def dial(self, path):
        alone = [("grpc.use_local_subchannel_pool", 1)]  # else a new connection to a path may be an old one
        return await self._stack.enter_async_context(aio.insecure_channel(f"unix:{path}", options=alone))

    def sockets(self):
        """What a kubelet's watcher finds."""
        paths = sorted(self.registry.iterdir()) if self.registry.is_dir() else []
        return [path for path in paths if not path.name.startswith(".") and _is_socket(path)]

    async def register(self, driver, *, among=None, error=""):
        """Find a driver by its socket, ask it, and take it (or refuse it with an error)."""
        socket = await until(
            lambda: next((s for s in self.sockets() if s.name.startswith(driver) and s not in (among or ())), None),
            saying=f"a registration socket of {driver}",
        )
        client = RegistrationClient(await self.dial(socket))
        info = await client.get_info(InfoRequest(), timeout=CALL_TIMEOUT)
        assert (info.type, info.name) == ("DRAPlugin", driver)
        assert next(version for version in info.supported_versions if version in KNOWN) == "v1.DRAPlugin"
        await client.notify_registration_status(
            RegistrationStatus(plugin_registered=not error, error=error), timeout=CALL_TIMEOUT
        )
        return Connection(await self.dial(info.endpoint), info, socket)


class Connection:
    """To one driver."""

    def __init__(self, channel, info, socket):
        self.channel = channel
        self.info = info
        self.socket = socket

    async def prepare(self, *claims, version=plugin.DraPluginVersion.V1, within=CALL_TIMEOUT):
        """Call, and return by claim uid what came of it: a list of devices, or an error."""
        client = DraPluginClient(self.channel, version=version)
        asked = NodePrepareResourcesRequest(claims=[message(claim) for claim in claims])
        answer = await client.node_prepare_resources(asked, timeout=within)
        self._insist(asked, answer)
        for each in answer.claims.values():
            assert not (each.error and each.devices)
            for device in each.devices:
                assert not any("/" in name for name in device.request_names), "names of subrequests"
        return {uid: each.error or list(each.devices) for uid, each in answer.claims.items()}

    async def unprepare(self, *claims, version=plugin.DraPluginVersion.V1, within=CALL_TIMEOUT):
        """Call, and return the error of each claim."""
        client = DraPluginClient(self.channel, version=version)
        asked = NodeUnprepareResourcesRequest(claims=[message(claim) for claim in claims])
        answer = await client.node_unprepare_resources(asked, timeout=within)
        self._insist(asked, answer)
        return {uid: each.error for uid, each in answer.claims.items()}

    def health(self, *, version=devicehealth.DraResourceHealthVersion.V1ALPHA1):
        return devicehealth.DraResourceHealthClient(self.channel, version=version).node_watch_resources(
            devicehealth.NodeWatchResourcesRequest()
        )

    @staticmethod
    def _insist(asked, answer):
        uids = {claim.uid for claim in asked.claims}
        assert uids <= set(answer.claims), f"skipped {uids - set(answer.claims)}"
        assert set(answer.claims) <= uids, "claims that nobody asked for"


def message(claim):
    """A claim as the kubelet tells of it: a Claim, or an object of the API."""
    if isinstance(claim, Claim):
        return claim
    meta = claim["metadata"]
    return Claim(namespace=meta["namespace"], name=meta["name"], uid=meta["uid"])
