"""The kubelet plugin as a whole: several drivers, one process, one connection to the API server."""

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from dra.api.process_settings import ListenAddress
from dra.engine.cpus.cpusets import NO_CPUS
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Transport
from dra.model.meta import Struct
from dra.telemetry.telemetry_server import TelemetryServer
from kubeletplugin.colocation.batch_pods.suppression_mark import lift_marked_quotas
from kubeletplugin.colocation.options import ColocationOptions
from kubeletplugin.colocation.resctrl.group_writer import restore_recorded_groups
from kubeletplugin.contract import (
    BestEffortLimitable,
    DeviceReportable,
    DeviceStatusReportable,
    Driver,
    NodeReservationAware,
)
from kubeletplugin.device_status import DeviceStatusReporter
from kubeletplugin.driver_runner import DriverRunner, PluginDirectories
from kubeletplugin.metrics import PluginMetrics
from kubeletplugin.node_events import NodeEventRecorder
from kubeletplugin.node_reservation import NodeReservationWatcher

if TYPE_CHECKING:
    from kubeletplugin.colocation.node_agent import NodeAgent
    from kubeletplugin.device_reporter import DeviceReporter

QPS: Final = 100.0
BURST: Final = 200.0
"""Limits of requests per second to the API server, which gets one request per prepared claim and few others.

A kubelet usually prepares ten pods at a time. All nodes of a cluster together must not overload the API server.
"""

_log: Final = logging.getLogger(__name__)


class KubeletPluginOptions(Struct, frozen=True):
    """The options of the plugin process, as given on the command line."""

    node: str
    directories: PluginDirectories
    probes: ListenAddress | None = None
    metrics: ListenAddress | None = None
    koordinator_devices: bool = False
    """Whether to report the devices in Koordinator's kind Device and in labels of the Node."""
    colocation: ColocationOptions | None = None
    """Options of colocation on the node; None: what the node uses is not sampled, and no batch pod is held back."""


class PluginApplication:
    """Assembles the drivers, the metrics and the Node watcher of one plugin process; `run` serves until cancelled."""

    def __init__(
        self,
        drivers: Iterable[Driver],
        transport: Transport,
        options: KubeletPluginOptions,
        *,
        clock: Clock = SYSTEM,
        sync: bool = True,
    ) -> None:
        """Create a runner for each driver; raises ValueError (SocketPathError included) for what cannot be served.

        Without `sync` a checkpoint survives the process, but not a loss of power.
        """
        self._transport = transport
        self._options = options
        self.metrics = PluginMetrics()
        client = Client(transport, RateLimiter(QPS, BURST, clock=clock), clock=clock)
        self._events = NodeEventRecorder(client, node=options.node, clock=clock)
        self.runners = [
            DriverRunner(
                driver,
                client=client,
                node=options.node,
                directories=options.directories,
                metrics=self.metrics,
                clock=clock,
                record_event=self._events.record_warning,
                sync=sync,
            )
            for driver in drivers
        ]
        self._reporters = self._create_device_reporters(client) if options.koordinator_devices else []
        self._status_reporters = [
            DeviceStatusReporter(client, runner.driver, preparer=runner.preparer, manager=runner.driver.name)
            for runner in self.runners
            if isinstance(runner.driver, DeviceStatusReportable)
        ]
        aware = [runner.driver for runner in self.runners if isinstance(runner.driver, NodeReservationAware)]
        self._node_reservation = (
            NodeReservationWatcher(client, aware, node=options.node, events=self._events, clock=clock)
            if aware
            else None
        )
        self._agent = (
            None if options.colocation is None else self._create_agent(client, options.colocation, clock=clock)
        )
        if options.colocation is None:
            # The limit of an earlier run with colocation is stored, and no part of this run would ever lift it.
            for driver in (runner.driver for runner in self.runners):
                if isinstance(driver, BestEffortLimitable):
                    driver.limit_best_effort(NO_CPUS)
        names = [runner.driver.name for runner in self.runners]
        if len(set(names)) < len(names):
            raise ValueError(f"drivers {', '.join(names)}: name each driver once")

    def _create_device_reporters(self, client: Client) -> "list[DeviceReporter]":
        from kubeletplugin.device_reporter import DeviceReporter  # noqa: PLC0415 - with pydantic, 13 MiB

        return [
            DeviceReporter(
                client,
                runner.driver,
                node=self._options.node,
                preparer=runner.preparer,
                changes=runner.changes,
            )
            for runner in self.runners
            if isinstance(runner.driver, DeviceReportable)
        ]

    def _create_agent(self, client: Client, options: ColocationOptions, *, clock: Clock) -> "NodeAgent":
        """Return the agent of colocation, which needs CEL: 25 MiB that a plugin without colocation does not load."""
        from kubeletplugin.colocation.metrics import ColocationMetrics  # noqa: PLC0415
        from kubeletplugin.colocation.node_agent import AgentContext, create_node_agent  # noqa: PLC0415

        context = AgentContext(
            node=self._options.node,
            options=options,
            drivers=tuple(runner.driver for runner in self.runners),
            events=self._events,
            metrics=ColocationMetrics(self.metrics.registry),
        )
        return create_node_agent(client, context, clock=clock)

    def not_ready_reasons(self) -> list[str]:
        """Return the reasons why the drivers are not ready; an empty list means ready."""
        reasons = [text for runner in self.runners for text in runner.not_ready_reasons()]
        optional = (self._node_reservation, self._agent)
        return reasons + [
            text for component in optional if component is not None for text in component.not_ready_reasons()
        ]

    async def run(self) -> None:
        """Serve until cancelled; then remove the sockets and let running calls finish."""
        options = self._options
        try:
            async with TelemetryServer(
                probes=options.probes,
                metrics=options.metrics,
                registry=self,
                not_ready_reasons=self.not_ready_reasons,
                observer=self.metrics.dropped,
            ) as endpoints:
                for name, address in endpoints.addresses.items():
                    _log.info("%s on http://%s", name, address)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._events.run(), name=f"events of node {options.node}")
                    if self._node_reservation is not None:
                        group.create_task(self._node_reservation.run(), name=f"node {options.node}")
                        await self._node_reservation.seen()
                    if self._agent is not None:
                        group.create_task(self._agent.run(), name=f"colocation on node {options.node}")
                    else:
                        group.create_task(lift_marked_quotas(options.directories.cdi), name="end of suppression")
                        group.create_task(restore_recorded_groups(options.directories.cdi), name="end of division")
                    for statuses in self._status_reporters:
                        group.create_task(statuses.run(), name="device statuses")
                    for runner in self.runners:
                        group.create_task(runner.run(), name=f"driver {runner.driver.name}")
                    for reporter in self._reporters:
                        group.create_task(reporter.run(), name=f"device {options.node}")
        finally:
            await self._transport.close()
            _log.info("stopped")

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        self.not_ready_reasons()  # sets the gauges
        return self.metrics.render()
