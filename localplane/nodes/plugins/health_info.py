"""The health of devices as their plugins report it and the kubelet caches it.

Each registered plugin has a stream, which is opened again 5 s after it has ended. A report holds until the plugin's own
timeout has passed since its arrival. The end of a stream clears all reports of the driver. A kubelet of 1.37
speaks v1 or v1alpha1 with plugins that listed either version at registration, and opens no stream to any other plugin.
A kubelet of 1.36 speaks v1alpha1 with every plugin; as 1.36, this one still prefers v1 where a plugin listed v1.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from grpc import aio

from dra.kube.clock import Clock
from dra.model.releases import Release
from dra.wire import devicehealth
from localplane.nodes.drivers import Device, DeviceHealthStatus
from localplane.nodes.plugins.responses import grpc_error_text

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
    received_at: float = field(compare=False)

    def is_current(self, now: float) -> bool:
        return now - self.received_at <= self.timeout


class HealthInfoCache:
    """The health of all devices of one node."""

    def __init__(self, clock: Clock, *, on_change: Callable[[], None]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._reports: dict[str, dict[tuple[str, str], _HealthReport]] = {}

    def get(self, device: Device) -> DeviceHealthStatus:
        """Return the current health of a device."""
        report = self._reports.get(device.driver, {}).get((device.pool, device.name))
        return report.health if report is not None and report.is_current(self._clock.now()) else DeviceHealthStatus()

    def update(self, driver: str, devices: Iterable[devicehealth.DeviceHealth]) -> None:
        """Store a driver's report on all its devices; devices that the report omits become stale."""
        known, now = self._reports.setdefault(driver, {}), self._clock.now()
        reports = {
            (device.device.pool_name, device.device.device_name): _health_report(device, now) for device in devices
        }
        stale = {key: report for key, report in known.items() if key not in reports and not report.is_current(now)}
        changed = any(known.get(key) != report for key, report in reports.items()) or bool(stale)
        for key in stale:
            del known[key]
        known.update(reports)
        if changed:
            self._on_change()

    def expire(self) -> None:
        """Remove reports that have timed out; the kubelet notices at its next look at a pod."""
        now = self._clock.now()
        for driver, known in tuple(self._reports.items()):
            current = {key: report for key, report in known.items() if report.is_current(now)}
            if len(current) != len(known):
                self._reports[driver] = current
                self._on_change()

    def clear(self, driver: str) -> None:
        """Remove all reports of a driver."""
        if self._reports.pop(driver, None):
            self._on_change()


async def watch_device_health(
    channel: aio.Channel, driver: str, *, version: devicehealth.DraResourceHealthVersion, cache: HealthInfoCache
) -> None:
    """Store the health reports of a plugin until cancelled."""
    client = devicehealth.DraResourceHealthClient(channel, version=version)
    while True:
        try:
            async for response in client.node_watch_resources(devicehealth.NodeWatchResourcesRequest()):
                cache.update(driver, response.devices)
        except aio.AioRpcError as error:
            _log.debug("driver %s: no health: %s", driver, grpc_error_text(error))
        finally:
            cache.clear(driver)
        await asyncio.sleep(RECONNECT_SECONDS)


def health_service_version(
    versions: Collection[str], *, release: Release
) -> devicehealth.DraResourceHealthVersion | None:
    """Return the version to speak with a plugin that listed `versions`; None if the kubelet opens no stream."""
    offered = [version for version in devicehealth.DraResourceHealthVersion if version in versions]
    if not offered and release.traits.health_requires_registration:
        return None
    return offered[0] if offered else devicehealth.DraResourceHealthVersion.V1ALPHA1


def _health_report(report: devicehealth.DeviceHealth, now: float) -> _HealthReport:
    message = (
        report.message
        if len(report.message) <= HEALTH_MESSAGE_MAX
        else report.message[: HEALTH_MESSAGE_MAX - 3] + "..."
    )
    timeout = report.health_check_timeout_seconds
    health = DeviceHealthStatus(_STATES.get(report.health, "Unknown"), message)
    return _HealthReport(health, float(timeout) if timeout > 0 else DEFAULT_HEALTH_TIMEOUT_SECONDS, now)
