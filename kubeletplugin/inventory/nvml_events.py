"""What GPUs tell of their failures: NVML's events.

An XID is an error report of the driver. Some are the application's own fault (a bad pointer), those are ignored, as in
NVIDIA's drivers; after any other the GPU is not to be trusted. It stays so until this process starts again: no event
tells that a GPU is well, only an administrator who has reset it can.
"""

import logging
from enum import Enum, auto
from threading import Lock
from typing import Any, Final, TypeAlias

from kubeletplugin.inventory.gpus import GpuFault

log = logging.getLogger(__name__)

IGNORED_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Graphics exception, page fault, stopped processing, cleanup after an error, video exception, context timeout."""

XID: Final = 8
DOUBLE_BIT_ECC: Final = 2
_TIMEOUT: Final = 10

FaultsByGpu: TypeAlias = dict[str, dict[tuple[str, str], GpuFault]]
"""By uuid of the GPU; each kind once."""


class WaitOutcome(Enum):
    """What came of waiting."""

    EVENT = auto()
    NOTHING = auto()
    UNKNOWN = auto()
    """It could not be waited for, and the answer came at once."""


class NvmlEventMonitor:
    """One set of events for all GPUs. `wait` runs in a thread of its own, so the rest takes a lock."""

    def __init__(self, nvml: Any, faults: FaultsByGpu, *, ignored: frozenset[int]) -> None:  # noqa: ANN401
        """Take NVML, and where to note what is told: that outlives a new beginning of NVML."""
        self._nvml = nvml
        self._ignored = ignored
        self._lock = Lock()
        self._faults = faults
        self._tried: set[str] = set()
        self._watched: set[str] = set()
        self._set: Any = None
        self._complaint = ""

    def watch(self, uuid: str, handle: object) -> None:
        """Listen to a GPU, if it can be listened to; asked once."""
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
        """Whether failures of a GPU would be heard of."""
        return uuid in self._watched

    def faults(self, uuid: str) -> tuple[GpuFault, ...]:
        """Return what a GPU has told."""
        with self._lock:
            return tuple(self._faults.get(uuid, {}).values())

    def wait(self, seconds: float) -> WaitOutcome:
        """Wait for an event, no longer than that."""
        if self._set is None or not self._watched:
            return WaitOutcome.UNKNOWN
        try:
            event = self._nvml.nvmlEventSetWait_v2(self._set, int(seconds * 1000))
        except self._nvml.NVMLError as error:
            if error.value == _TIMEOUT:
                return WaitOutcome.NOTHING
            if str(error) != self._complaint:  # it may come each time
                self._complaint = str(error)
                log.warning("GPU events cannot be waited for: %s; all GPUs are looked at from time to time", error)
            return WaitOutcome.UNKNOWN
        self._note(event)
        return WaitOutcome.EVENT

    def close(self) -> None:
        """Stop listening."""
        if self._set is not None:
            try:
                self._nvml.nvmlEventSetFree(self._set)
            except self._nvml.NVMLError as error:
                log.info("a set of GPU events could not be freed: %s", error)
        self._set = None
        self._watched.clear()

    def _note(self, event: Any) -> None:  # noqa: ANN401 - NVML's structure
        if event.eventType == DOUBLE_BIT_ECC:
            fault = GpuFault(reason="ecc", message="an uncorrectable memory error")
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
            uuids = set(self._watched)  # one of them: none is to be trusted
        with self._lock:
            for uuid in uuids:
                self._faults.setdefault(uuid, {}).setdefault((fault.reason, fault.value), fault)
        log.warning("GPU %s: %s", ", ".join(sorted(uuids)), fault.message)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
