"""Faults of GPUs, from the events of NVML.

An XID is an error report of the driver. Some XIDs are caused by the application itself (a bad pointer) and are ignored,
as in NVIDIA's drivers. After any other XID the GPU is unhealthy until the driver reports that the GPU needs no recovery
(the field *GPU recovery action* of drivers from R570 on). No event reports that, so the field is read while a GPU has
faults. An older driver has no such field, and the faults stay until this process restarts.
"""

import logging
import time
from enum import Enum, auto
from threading import Lock
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from kubeletplugin.inventory.gpus import GpuFault

log = logging.getLogger(__name__)

IGNORED_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that are an application's error.

In order: graphics exception, page fault, stopped processing, cleanup after an error, video exception, context timeout.
"""

XID: Final = 8
DOUBLE_BIT_ECC: Final = 2
_TIMEOUT: Final = 10

RECOVERY_ACTION: Final = 230
"""Number of NVML's field with the action that a GPU needs to recover."""

NO_ACTION: Final = 0
ACTIONS: Final = {
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain peer-to-peer traffic",
    4: "drain the GPU and reset it",
    5: "recover the IMEX domain",
    6: "reset the bus",
    7: "reboot the system",
}
"""Actions that NVML recommends."""

FaultsByGpu: TypeAlias = dict[str, dict[tuple[str, str], GpuFault]]
"""Faults by uuid of the GPU, then by reason and value."""


class WaitOutcome(Enum):
    """The outcome of waiting for an event."""

    EVENT = auto()
    NOTHING = auto()
    UNKNOWN = auto()
    """Waiting is not possible; the answer came at once."""


class NvmlEventMonitor:
    """The monitor of NVML's events of all GPUs; `wait` runs in a thread, so a lock protects the faults."""

    def __init__(self, nvml: Any, faults: FaultsByGpu, *, ignored: frozenset[int]) -> None:  # noqa: ANN401
        """Create a monitor that adds to `faults`, which must survive a restart of NVML."""
        self._nvml = nvml
        self._ignored = ignored
        self._lock = Lock()
        self._faults = faults
        self._last_event: dict[str, float] = {}
        """Monotonic time of the last fault of a GPU, by uuid."""
        self._actions: dict[str, str] = {}
        """The recovery action of GPUs with faults, by uuid."""
        self._tried: set[str] = set()
        self._watched: set[str] = set()
        self._set: Any = None
        self._complaint = ""

    def watch(self, uuid: str, handle: object) -> None:
        """Register for the events of a GPU, if it supports events; a GPU is tried once."""
        if uuid in self._tried:
            return
        self._tried.add(uuid)
        try:
            if self._set is None:
                self._set = self._nvml.nvmlEventSetCreate()
            kinds = (XID | DOUBLE_BIT_ECC) & self._nvml.nvmlDeviceGetSupportedEventTypes(handle)
            if kinds & XID:
                self._nvml.nvmlDeviceRegisterEvents(handle, kinds, self._set)
                self._watched.add(uuid)
                return
            reason: object = "it has no events"
        except self._nvml.NVMLError as error:
            reason = error
        log.warning("GPU %s: nobody will notice if it fails: %s", uuid, reason)

    def watches(self, uuid: str) -> bool:
        """Report whether faults of a GPU cause events here."""
        return uuid in self._watched

    def faults(self, uuid: str) -> tuple[GpuFault, ...]:
        """Return the faults that a GPU has reported, with the recovery action that it needs."""
        with self._lock:
            action = self._actions.get(uuid, "")
            return tuple(
                replace(fault, message=f"{fault.message}; NVML recommends: {action}") if action else fault
                for fault in self._faults.get(uuid, {}).values()
            )

    def forget_recovered(self, uuid: str, handle: object, *, settled_seconds: float) -> None:
        """Remove the faults of a GPU that needs no recovery, at least the given time after its last fault.

        The driver may report the fault before it knows what the GPU needs.
        """
        if not self._faults.get(uuid):
            return
        action = self._recovery_action(handle)
        with self._lock:
            self._actions[uuid] = "" if action is None else ACTIONS.get(action, "")
            settled = time.monotonic() - self._last_event.get(uuid, -settled_seconds) >= settled_seconds
            if action == NO_ACTION and settled:
                recovered = self._faults.pop(uuid)
                log.info("GPU %s: recovered from %s", uuid, ", ".join(fault.message for fault in recovered.values()))

    def _recovery_action(self, handle: object) -> int | None:
        """Return the number of the action that a GPU needs; None if the driver does not say."""
        try:
            (field,) = self._nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION])
            return None if getattr(field, "nvmlReturn", 0) else int(field.value.uiVal)
        except Exception as error:  # noqa: BLE001 - bindings and drivers differ; without an answer the faults stay
            log.debug("the recovery action of a GPU is not known: %s", error)
            return None

    def wait(self, seconds: float) -> WaitOutcome:
        """Wait for an event, at most the given seconds; return the outcome."""
        if self._set is None or not self._watched:
            return WaitOutcome.UNKNOWN
        try:
            event = self._nvml.nvmlEventSetWait_v2(self._set, int(seconds * 1000))
        except self._nvml.NVMLError as error:
            if error.value == _TIMEOUT:
                return WaitOutcome.NOTHING
            if str(error) != self._complaint:  # the error may repeat at each call
                self._complaint = str(error)
                log.warning("GPU events are not available: %s; polling all GPUs", error)
            return WaitOutcome.UNKNOWN
        self._note(event)
        return WaitOutcome.EVENT

    def close(self) -> None:
        """Free the set of events and stop watching all GPUs."""
        if self._set is not None:
            try:
                self._nvml.nvmlEventSetFree(self._set)
            except self._nvml.NVMLError as error:
                log.info("a set of GPU events could not be freed: %s", error)
        self._set = None
        self._watched.clear()

    def _note(self, event: Any) -> None:  # noqa: ANN401 - NVML's structure
        if event.eventType == DOUBLE_BIT_ECC:
            fault = GpuFault(reason="ecc", message="uncorrectable memory error")
        elif event.eventType != XID:
            return
        elif event.eventData in self._ignored:
            log.info("XID %d is an application's error, the GPU stays in use", event.eventData)
            return
        else:
            fault = GpuFault(reason="xid", value=str(event.eventData), message=f"XID {event.eventData}")
        try:
            uuids = {_text(self._nvml.nvmlDeviceGetUUID(event.device))}
        except self._nvml.NVMLError:
            uuids = set(self._watched)  # one of these is faulty: all count as faulty
        with self._lock:
            for uuid in uuids:
                self._last_event[uuid] = time.monotonic()
                self._faults.setdefault(uuid, {}).setdefault((fault.reason, fault.value), fault)
        log.warning("GPU %s: %s", ", ".join(sorted(uuids)), fault.message)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
