"""What plugins say of the health of their devices, as the kubelet remembers it.

A stream for each registered plugin, opened again 5 s after it has ended. What was said holds until the plugin's own
timeout has passed since it was heard; the end of a stream clears all that is known of the driver. A kubelet of 1.37
speaks v1 or v1alpha1 with plugins that have told of either when they registered, and opens no stream with any other.
One of 1.36 speaks v1alpha1 with every plugin; as 1.36, this one prefers v1 as well where a plugin has told of that.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from grpc import aio

from dra.kube.clock import Clock
from dra.wire import devicehealth
from localplane.nodes.drivers import Device, DeviceHealthStatus
from localplane.nodes.plugins.responses import grpc_error_text
from localplane.schemas.releases import Release

RECONNECT_SECONDS: Final = 5.0
EXPIRE_SECONDS: Final = 5.0
DEFAULT_HEALTH_TIMEOUT_SECONDS: Final = 30.0
HEALTH_MESSAGE_MAX: Final = 1024

_STATES: Final = {
    devicehealth.HealthStatus.HEALTHY: "Healthy",
    devicehealth.HealthStatus.UNHEALTHY: "Unhealthy",
}

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _HealthReport:
    health: DeviceHealthStatus
    timeout: float
    heard: float = field(compare=False)

    def holds(self, now: float) -> bool:
        return now - self.heard <= self.timeout


class HealthInfoCache:
    """All devices of one node."""

    def __init__(self, clock: Clock, *, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._told: dict[str, dict[tuple[str, str], _HealthReport]] = {}

    def of(self, device: Device) -> DeviceHealthStatus:
        """Return what is known of a device now."""
        told = self._told.get(device.driver, {}).get((device.pool, device.name))
        return told.health if told is not None and told.holds(self._clock.now()) else DeviceHealthStatus()

    def take(self, driver: str, devices: Iterable[devicehealth.DeviceHealth]) -> None:
        """Take in what a driver says of all its devices; those that it leaves out grow stale."""
        known, now = self._told.setdefault(driver, {}), self._clock.now()
        news = {(each.device.pool_name, each.device.device_name): _health_report(each, now) for each in devices}
        stale = {key: told for key, told in known.items() if key not in news and not told.holds(now)}
        moved = any(known.get(key) != told for key, told in news.items()) or bool(stale)
        for key in stale:
            del known[key]
        known.update(news)
        if moved:
            self._changed()

    def expire(self) -> None:
        """Forget what has not been said again in time; the kubelet finds out when it next looks at a pod."""
        now = self._clock.now()
        for driver, known in tuple(self._told.items()):
            held = {key: told for key, told in known.items() if told.holds(now)}
            if len(held) != len(known):
                self._told[driver] = held
                self._changed()

    def clear(self, driver: str) -> None:
        """Forget what a driver has said."""
        if self._told.pop(driver, None):
            self._changed()


async def watch_device_health(
    channel: aio.Channel, driver: str, *, version: devicehealth.DraResourceHealthVersion, cache: HealthInfoCache
) -> None:
    """Take in what a plugin says, until cancelled."""
    client = devicehealth.DraResourceHealthClient(channel, version=version)
    while True:
        try:
            async for answer in client.node_watch_resources(devicehealth.NodeWatchResourcesRequest()):
                cache.take(driver, answer.devices)
        except aio.AioRpcError as error:
            _log.debug("driver %s: no health: %s", driver, grpc_error_text(error))
        finally:
            cache.clear(driver)
        await asyncio.sleep(RECONNECT_SECONDS)


def health_service_version(
    versions: Collection[str], *, release: Release
) -> devicehealth.DraResourceHealthVersion | None:
    """Return the version to speak with a plugin that told of `versions`; None: a kubelet opens no stream with it."""
    told = [each for each in devicehealth.DraResourceHealthVersion if each in versions]
    if not told and release.traits.health_requires_registration:
        return None
    return told[0] if told else devicehealth.DraResourceHealthVersion.V1ALPHA1


def _health_report(told: devicehealth.DeviceHealth, now: float) -> _HealthReport:
    message = (
        told.message if len(told.message) <= HEALTH_MESSAGE_MAX else told.message[: HEALTH_MESSAGE_MAX - 3] + "..."
    )
    timeout = told.health_check_timeout_seconds
    health = DeviceHealthStatus(_STATES.get(told.health, "Unknown"), message)
    return _HealthReport(health, float(timeout) if timeout > 0 else DEFAULT_HEALTH_TIMEOUT_SECONDS, now)
