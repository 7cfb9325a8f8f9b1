"""Time slices of NVIDIA's GPUs; only ``nvidia-smi`` can set them.

The setting belongs to the GPU and outlives the process that made it: what was set is recorded, and reset when the claim
is gone, even in a later process (`time_slice_record`).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Final

from dra.api.parameters.time_slices import TimeSliceInterval
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.time_slice_record import TimeSliceRecord

log = logging.getLogger(__name__)

NVIDIA_SMI_TIMEOUT: Final = 20.0
"""Seconds until a call of ``nvidia-smi`` is ended.

A call usually takes a second or two; a lost GPU can block it forever, and all claims wait meanwhile.
"""

HUNG_RETRY_DELAY: Final = 60.0
"""Seconds until ``nvidia-smi`` is called again for a GPU that blocked it, or whose reset failed."""

_HUNG: Final = f"nvidia-smi has not answered for {NVIDIA_SMI_TIMEOUT:.0f} s"

TIME_SLICE_ARGUMENTS: Final = {
    TimeSliceInterval.DEFAULT: "0",
    TimeSliceInterval.SHORT: "1",
    TimeSliceInterval.MEDIUM: "2",
    TimeSliceInterval.LONG: "3",
}


class NvidiaSmiTimeSlicingManager:
    """The manager that sets time slices with the ``nvidia-smi`` of the installed driver."""

    def __init__(self, root: DriverRoot, record: TimeSliceRecord) -> None:
        self._root = root
        self._record = record
        self._set: dict[str, TimeSliceInterval] = {}
        """Time slices that this process has set; the record also has those of other processes, and unconfirmed ones."""
        self._hung_until: dict[str, float] = {}
        """Monotonic time until which ``nvidia-smi`` is not called again for a GPU that blocked it."""
        self._reset_retry_at: dict[str, float] = {}
        """Monotonic time until which a failed reset of a GPU is not retried."""

    @property
    def unavailable_reason(self) -> str:
        """The reason why no time slice can be set; empty if they can."""
        if self._root.program("nvidia-smi") is None:
            return f"no nvidia-smi found below {self._root.here}"
        return ""

    async def apply(self, wanted: Mapping[str, TimeSliceInterval]) -> Mapping[str, str]:
        """Set the time slices that differ from the recorded ones; a failure of one GPU does not affect the others.

        To be called with the lock of the driver's directory.
        """
        recorded = self._record.read()
        due = {uuid: interval for uuid, interval in wanted.items() if self._differs(uuid, interval, recorded)}
        if not due:
            return {}
        asked = {uuid: interval for uuid, interval in due.items() if interval is not TimeSliceInterval.DEFAULT}
        try:
            await asyncio.to_thread(self._record.write, {**recorded, **asked})
        except OSError as error:
            text = f"{self._record.path} cannot be written: {error.strerror}"
            return {uuid: _failure_text(uuid, interval, text) for uuid, interval in asked.items()}
        reasons = await asyncio.gather(*(self._run(uuid, interval) for uuid, interval in due.items()))
        failed, left = {}, dict(self._record.read())
        for (uuid, interval), reason in zip(due.items(), reasons, strict=True):
            text = _failure_text(uuid, interval, reason)
            if not reason:
                self._set[uuid] = interval
                if interval is TimeSliceInterval.DEFAULT:
                    left.pop(uuid, None)
            elif interval is TimeSliceInterval.DEFAULT:
                self._reset_retry_at[uuid] = time.monotonic() + HUNG_RETRY_DELAY
                log.warning("%s; retrying in %.0f s", text, HUNG_RETRY_DELAY)
            else:
                failed[uuid] = text
                if reason is not _HUNG and uuid not in recorded:
                    left.pop(uuid, None)  # nvidia-smi refused, so the GPU keeps its former setting
        with contextlib.suppress(OSError):  # then the record lists too many GPUs: they are reset once more
            await asyncio.to_thread(self._record.write, left)
        return failed

    def forget(self) -> None:
        """Set all wanted time slices again at the next call of `apply`."""
        self._set.clear()

    def _differs(self, uuid: str, interval: TimeSliceInterval, recorded: Mapping[str, TimeSliceInterval]) -> bool:
        """Report whether a GPU has, or may have, another time slice than the wanted one, and may be set now."""
        if interval is TimeSliceInterval.DEFAULT:
            return uuid in recorded and time.monotonic() >= self._reset_retry_at.get(uuid, 0.0)
        return self._set.get(uuid) is not interval or recorded.get(uuid) is not interval

    async def _run(self, uuid: str, interval: TimeSliceInterval) -> str:
        program = self._root.program("nvidia-smi")
        if program is None:
            return self.unavailable_reason
        if time.monotonic() < self._hung_until.get(uuid, 0.0):
            return _HUNG
        arguments = ("compute-policy", "-i", uuid, "--set-timeslice", TIME_SLICE_ARGUMENTS[interval])
        process = await asyncio.create_subprocess_exec(
            str(program),
            *arguments,
            env=self._root.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), NVIDIA_SMI_TIMEOUT)
        except TimeoutError:
            self._hung_until[uuid] = time.monotonic() + HUNG_RETRY_DELAY
            return _HUNG
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return "" if process.returncode == 0 else output.decode(errors="replace").strip()[:500] or "nvidia-smi failed"


def _failure_text(uuid: str, interval: TimeSliceInterval, reason: str) -> str:
    return f"GPU {uuid}: time slice {interval} cannot be set: {reason}"
