"""What the plugin says of health: of its devices, to the kubelet; of itself, to probes.

The kubelet forgets what it was told of a device after a while, and at once when the stream ends; it then knows nothing
of it (Unknown). So everything is said at the beginning, at each change, and again before it is forgotten. A driver that
cannot tell how its devices are says nothing, and time makes Unknown of it.
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

HEALTH_CHECK_TIMEOUT: Final = 30
"""Seconds for which a statement holds; also what kubelets take that do not know the field."""

HEALTH_REPORT_INTERVAL: Final = HEALTH_CHECK_TIMEOUT / 3
MAX_MESSAGE_LENGTH: Final = 1024
"""Bytes; of a longer one the kubelet takes nothing."""

SERVICES: Final = frozenset({grpc_health.SERVICE, *devicehealth.SERVICES.values(), *plugin.SERVICES.values()})
"""What a probe may ask for by name."""

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
        """Serve all versions, and the probes' service."""
        devicehealth.add_to_server(self, server)
        grpc_health.add_to_server(self, server)

    def close(self) -> None:
        """End all streams: a server waits for them when it stops."""
        self._closed = True
        self._changes.ring()

    async def node_watch_resources(
        self,
        request: NodeWatchResourcesRequest,
        context: aio.ServicerContext[NodeWatchResourcesRequest, NodeWatchResourcesResponse],
        /,
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        """Say how all devices are: now, at each change, and again every few seconds."""
        del request, context
        async for _ in self._beats():
            if (state := self._state()) is not None:
                yield state

    async def check(
        self, request: HealthCheckRequest, context: aio.ServicerContext[HealthCheckRequest, HealthCheckResponse], /
    ) -> HealthCheckResponse:
        """Say how the service is; an empty name means all of them."""
        if request.service and request.service not in SERVICES:
            await context.abort(StatusCode.NOT_FOUND, f"no service {request.service[:MAX_MESSAGE_LENGTH]!r}")
        return HealthCheckResponse(status=self._status())

    async def watch(
        self, request: HealthCheckRequest, context: aio.ServicerContext[HealthCheckRequest, HealthCheckResponse], /
    ) -> AsyncIterator[HealthCheckResponse]:
        """Say how the service is, and again when that changes."""
        del context
        known = not request.service or request.service in SERVICES
        last = None
        async for _ in self._beats():
            now = self._status() if known else HealthCheckResponse.ServingStatus.SERVICE_UNKNOWN
            if now != last:
                last = now
                yield HealthCheckResponse(status=now)

    async def _beats(self) -> AsyncIterator[None]:
        """Yield now, at each change, and when it has been quiet for long; end when closed."""
        with self._changes.bell() as bell:
            while not self._closed:
                yield
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), self._every)
                bell.clear()

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
        return NodeWatchResourcesResponse(devices=[_device_health(each, at) for each in known])


def _device_health(known: DeviceHealthState, at: int) -> DeviceHealth:
    status = {True: HealthStatus.HEALTHY, False: HealthStatus.UNHEALTHY, None: HealthStatus.UNKNOWN}
    return DeviceHealth(
        device=DeviceIdentifier(pool_name=known.pool, device_name=known.device),
        health=status[known.healthy],
        last_updated_time=at,
        health_check_timeout_seconds=HEALTH_CHECK_TIMEOUT,
        message=known.message.encode()[:MAX_MESSAGE_LENGTH].decode(errors="ignore"),
    )
