"""Events of the extender: unreadable annotations, unschedulable pods, and pods on capacity reserved for others."""

import logging
from typing import Final

from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.engine.scheduling.scheduler_cache import CachedReservation
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.events import EventRecorder
from dra.kube.resources import NODES, PODS, RESERVATIONS
from dra.model.event_type import EventType
from dra.model.scheduling import SchedulerNode, SchedulerPod

ACTION: Final = "Reserve"

_log: Final = logging.getLogger(__name__)


class ExtenderEvents:
    """A recorder of the extender's Events."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def node_annotation_unreadable(self, node: SchedulerNode, error: str) -> None:
        """Report that a node's annotation cannot be read."""
        text = f"node {node.metadata.name}: {error}; the last valid value stays in effect"
        _log.warning("%s", text)
        self._record(Regarding.of(NODES, node.metadata), ReservationReason.INVALID_NODE_RESERVATION, text)

    def node_shrunk(self, node: SchedulerNode, text: str) -> None:
        """Report a node that has less than its Reservations hold."""
        _log.warning("%s", text)
        self._record(Regarding.of(NODES, node.metadata), ReservationReason.RESERVED_CAPACITY_SHORT, text)

    def node_overcommitted(self, pod: SchedulerPod, text: str) -> None:
        """Report a pod that was bound without the extender, or resized, where reserved capacity is now short."""
        _log.warning("%s", text)
        self._record(Regarding.of(PODS, pod.metadata), ReservationReason.RESERVED_CAPACITY_TAKEN, text)

    def pod_unschedulable(self, pod: SchedulerPod, why: str) -> None:
        """Report a pod that must run in a reservation while no reservation can take it."""
        self._record(Regarding.of(PODS, pod.metadata), ReservationReason.FAILED_SCHEDULING_RESERVATION, why)

    def not_resized(self, known: CachedReservation, why: str) -> None:
        """Report a reservation that keeps its amounts although it requests others."""
        text = f"reservation {known.name}: {why}"
        _log.warning("%s", text)
        regarding = Regarding.cluster_scoped(RESERVATIONS, known.name, known.info.uid)
        self._record(regarding, ReservationReason.RESIZE_WAITS, text)

    def _record(self, regarding: Regarding, reason: ReservationReason, text: str) -> None:
        self._recorder.record(
            EventRecord(regarding=regarding, reason=reason.value, action=ACTION, note=text, severity=EventType.WARNING)
        )
