"""Health services: report the health of devices to the kubelet, and the health of the plugin to probes.

The kubelet forgets a device's reported health after a timeout, and at once when the stream ends; the device's health is
then Unknown. So the health of all devices is reported at the start of a stream, at each change, and again before the
timeout. If a driver fails to determine the health of its devices, no report is sent, and the timeout makes it Unknown.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

from grpc import StatusCode, aio

from dra.kube.clock import SYSTEM, Clock
from dra.wire import devicehealth, grpc_health, plugin
from dra.wire.devicehealth import (
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)
from dra.wire.grpc_health import HealthCheckRequest, HealthCheckResponse
from kubeletplugin.change_broadcaster import ChangeBroadcaster
from kubeletplugin.contract import DeviceHealthState, Driver
from kubeletplugin.ticks import until_tick

HEALTH_CHECK_TIMEOUT: Final = 30
"""Seconds that a health report is valid; also the default of kubelets that do not know the field."""

HEALTH_REPORT_INTERVAL: Final = HEALTH_CHECK_TIMEOUT / 3
MAX_MESSAGE_LENGTH: Final = 1024
"""Maximum length of a health message in bytes; the kubelet discards longer messages."""

SERVICES: Final = frozenset({grpc_health.SERVICE, *devicehealth.SERVICES.values(), *plugin.SERVICES.values()})
"""Names of the gRPC services that a probe may query."""

_log: Final = logging.getLogger(__name__)


class HealthService:
    """Serves device health to the kubelet and gRPC health to probes, for one driver.

    Implements `dra.wire.devicehealth.DraResourceHealthServicer` and `dra.wire.grpc_health.HealthServicer`.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        changes: ChangeBroadcaster,
        well: Callable[[], bool],
        clock: Clock = SYSTEM,
        every: float = HEALTH_REPORT_INTERVAL,
    ) -> None:
        self._driver = driver
        self._changes = changes
        self._is_well = well
        self._clock = clock
        self._every = every
        self._closed = False

    def add_to_server(self, server: aio.Server) -> None:
        """Add all versions of the device health service, and the probes' service, to a gRPC server."""
        devicehealth.add_to_server(self, server)
        grpc_health.add_to_server(self, server)

    def close(self) -> None:
        """End all streams, for which a stopping server would wait."""
        self._closed = True
        self._changes.notify()

    async def node_watch_resources(
        self,
        request: NodeWatchResourcesRequest,
        context: aio.ServicerContext[NodeWatchResourcesRequest, NodeWatchResourcesResponse],
        /,
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        """Report the health of all devices: now, at each change, and again every few seconds."""
        del request, context
        async for _ in self._report_ticks():
            if (state := self._state()) is not None:
                yield state

    async def check(
        self, request: HealthCheckRequest, context: aio.ServicerContext[HealthCheckRequest, HealthCheckResponse], /
    ) -> HealthCheckResponse:
        """Return the status of a service; an empty name means all services."""
        if request.service and request.service not in SERVICES:
            await context.abort(StatusCode.NOT_FOUND, f"no service {request.service[:MAX_MESSAGE_LENGTH]!r}")
        return HealthCheckResponse(status=self._status())

    async def watch(
        self, request: HealthCheckRequest, context: aio.ServicerContext[HealthCheckRequest, HealthCheckResponse], /
    ) -> AsyncIterator[HealthCheckResponse]:
        """Report the status of a service now, and again at each change."""
        del context
        known = not request.service or request.service in SERVICES
        last = None
        async for _ in self._report_ticks():
            now = self._status() if known else HealthCheckResponse.ServingStatus.SERVICE_UNKNOWN
            if now != last:
                last = now
                yield HealthCheckResponse(status=now)

    async def _report_ticks(self) -> AsyncIterator[None]:
        """Yield now, at each change, and after an interval without a change; end when closed."""
        with self._changes.subscribe() as changed:
            while not self._closed:
                yield
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), until_tick(self._every))
                changed.clear()

    def _status(self) -> HealthCheckResponse.ServingStatus:
        status = HealthCheckResponse.ServingStatus
        return status.SERVING if self._is_well() else status.NOT_SERVING

    def _state(self) -> NodeWatchResourcesResponse | None:
        try:
            known = self._driver.health()
        except Exception:  # noqa: BLE001 - a driver may be anybody's
            _log.exception("driver %s: the health of its devices is not known", self._driver.name)
            return None
        at = int(self._clock.wall().timestamp())
        return NodeWatchResourcesResponse(devices=[_device_health(device, at) for device in known])


def _device_health(known: DeviceHealthState, at: int) -> DeviceHealth:
    status = {True: HealthStatus.HEALTHY, False: HealthStatus.UNHEALTHY, None: HealthStatus.UNKNOWN}
    return DeviceHealth(
        device=DeviceIdentifier(pool_name=known.pool, device_name=known.device),
        health=status[known.healthy],
        last_updated_time=at,
        health_check_timeout_seconds=HEALTH_CHECK_TIMEOUT,
        message=known.message.encode()[:MAX_MESSAGE_LENGTH].decode(errors="ignore"),
    )
