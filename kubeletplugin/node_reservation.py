"""Passes the Node's annotation ``node.koordinator.sh/reservation`` and the Node's labels to the drivers.

The Node is watched, so a change takes effect within a second: from then on, reserved resources are neither published
nor prepared; a claim that already has some keeps them until it is unprepared. A malformed annotation changes nothing:
the last reservation stays in force, and an Event on the Node gives the reason. Drivers store the reservation across
restarts, so that a typo does not release reserved resources.

Drivers get the Node's labels in the same way. A label with an unknown value counts as if it were absent, and an Event
on the Node gives the reason.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final, NoReturn

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION, MalformedAnnotationError
from dra.engine.cpus.node_policies import NodeLabelReason
from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.kube.client import Client, Selection
from dra.kube.clock import SYSTEM, Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.reflector import Reflector
from dra.kube.resources import NODES
from dra.model import quantities
from dra.model.scheduling import SchedulerNode
from kubeletplugin.contract import NodeLabelsAware, NodeReservationAware, NodeTopologyReportable
from kubeletplugin.node_events import NodeAction, NodeEventRecorder
from kubeletplugin.node_topology import NodeTopologyReporter

INITIAL_SYNC_TIMEOUT: Final = 5.0
"""Seconds that drivers wait for the first reading of the Node; until then, the stored reservation is in force."""

SYNC_POLL_INTERVAL: Final = 0.05

_log: Final = logging.getLogger(__name__)


class NodeReservationWatcher:
    """Watches one Node for its reservation; `run` never returns and ends only by cancellation."""

    def __init__(
        self,
        client: Client,
        drivers: Sequence[NodeReservationAware],
        *,
        node: str,
        events: NodeEventRecorder,
        clock: Clock = SYSTEM,
    ) -> None:
        self._node = node
        self._drivers = drivers
        self._fault = ""
        self._label_problems: tuple[str, ...] = ()
        reportable = [driver for driver in drivers if isinstance(driver, NodeTopologyReportable)]
        self._topology = NodeTopologyReporter(client, node=node, drivers=reportable)
        self._events = events
        selection = Selection(fields=f"metadata.name={node}")
        handler = EventHandlerFuncs[SchedulerNode](on_upsert=self._apply, on_restore=ignore)
        self._reflector = Reflector(client, NODES, SchedulerNode, handler=handler, selection=selection, clock=clock)

    async def run(self) -> NoReturn:
        """Watch the Node until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run(), name=f"reflect node {self._node}")
            group.create_task(self._topology.run(), name=f"topology of node {self._node}")
        raise AssertionError("unreachable")  # neither has an end

    async def seen(self) -> None:
        """Wait for the first reading of the Node or its failure, at most `INITIAL_SYNC_TIMEOUT` seconds.

        The wait is short since claims that are already prepared must be served.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INITIAL_SYNC_TIMEOUT):
                while not self._reflector.synced.is_set() and self._reflector.failure is None:  # noqa: ASYNC110 - once
                    await asyncio.sleep(SYNC_POLL_INTERVAL)

    def not_ready_reasons(self) -> list[str]:
        """Return the reasons why the Node's annotation is not watched; empty when ready."""
        if (failure := self._reflector.failure) is not None:
            return [f"node {self._node}: its annotation {ANNOTATION_NODE_RESERVATION} is not watched: {failure}"]
        return []

    def _apply(self, node: SchedulerNode) -> None:
        self._apply_labels(node)
        self._apply_reservation(node)

    def _apply_labels(self, node: SchedulerNode) -> None:
        labels = node.metadata.labels or {}
        problems = tuple(
            text
            for driver in self._drivers
            if isinstance(driver, NodeLabelsAware)
            for text in driver.apply_node_labels(labels)
        )
        for text in problems:
            if text not in self._label_problems:  # once: a Node is written every few minutes
                _log.warning("node %s: %s", self._node, text)
                self._events.record_warning(NodeLabelReason.INVALID_NODE_LABEL.value, text, action=NodeAction.SERVE)
        self._label_problems = problems

    def _apply_reservation(self, node: SchedulerNode) -> None:
        annotation = node.metadata.annotation(ANNOTATION_NODE_RESERVATION)
        allocatable = quantities.from_resource_list(node.status.allocatable)
        fault = ""
        for driver in self._drivers:
            try:
                kept = driver.apply_node_reservation(annotation, allocatable=allocatable)
                if kept is not None:
                    self._topology.report(kept, uid=node.metadata.uid)
            except MalformedAnnotationError as error:
                fault = f"{error}; the last valid value stays in effect"
            except OSError as error:
                fault = (
                    f"annotation {ANNOTATION_NODE_RESERVATION}: is in effect, but cannot be stored, "
                    f"so a restart loses it: {error}"
                )
        if fault and fault != self._fault:  # once: a Node is written every few minutes
            _log.warning("node %s: %s", self._node, fault)
            self._events.record_warning(
                ReservationReason.INVALID_NODE_RESERVATION.value, fault, action=NodeAction.RESERVE
            )
        self._fault = fault
