"""How long a process computes on a GPU before the next one does: set by ``nvidia-smi``, there is no other way to.

The setting belongs to the GPU and outlives whoever made it. So the driver owns it as soon as one claim has asked for
it: it is set, and set back when the claim is gone, by whichever process lives then (`time_slice_record`). GPUs that no
claim of ours ever asked for are left as their administrator has set them.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

from dra.api.parameters.gpu import TimeSliceInterval
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.time_slice_record import TimeSliceRecord

log = logging.getLogger(__name__)

NVIDIA_SMI_TIMEOUT: Final = 20.0
"""``nvidia-smi`` takes a second or two; a GPU that is lost can hold it up for ever, and all claims wait meanwhile."""

HUNG_RETRY_DELAY: Final = 60.0
"""After which a GPU that held it up is tried again, and one that could not be set back."""

_HUNG: Final = f"nvidia-smi has not answered for {NVIDIA_SMI_TIMEOUT:.0f} s"

TIME_SLICE_ARGUMENTS: Final = {
    TimeSliceInterval.DEFAULT: "0",
    TimeSliceInterval.SHORT: "1",
    TimeSliceInterval.MEDIUM: "2",
    TimeSliceInterval.LONG: "3",
}


class TimeSlicingManager(Protocol):
    """Sets time slices."""

    @property
    def unable(self) -> str:
        """Why none can be set; empty if they can."""
        ...

    async def apply(self, wanted: Mapping[str, TimeSliceInterval]) -> Mapping[str, str]:
        """Set those of all GPUs, by uuid, where they change; return why not, of those that claims wait for."""
        ...


class SimulatedTimeSlicingManager:
    """For GPUs that do not compute: what is wanted is what is set."""

    unable = ""

    def __init__(self) -> None:
        self.set: dict[str, TimeSliceInterval] = {}

    async def apply(self, wanted: Mapping[str, TimeSliceInterval]) -> Mapping[str, str]:
        """Note what is set."""
        self.set = dict(wanted)
        return {}


class NvidiaSmiTimeSlicingManager:
    """With the ``nvidia-smi`` of the installed driver."""

    def __init__(self, root: DriverRoot, record: TimeSliceRecord) -> None:
        self._root = root
        self._record = record
        self._set: dict[str, TimeSliceInterval] = {}
        """By this process. What others have set, or it is not known whether it was set, is in the record only."""
        self._hung_until: dict[str, float] = {}
        """Until when a GPU is not asked for again."""
        self._later: dict[str, float] = {}
        """Until when a GPU is not set back again."""

    @property
    def unable(self) -> str:
        """Why none can be set."""
        if self._root.program("nvidia-smi") is None:
            return f"there is no nvidia-smi below {self._root.here}"
        return ""

    async def apply(self, wanted: Mapping[str, TimeSliceInterval]) -> Mapping[str, str]:
        """Set what differs from what was set before; a failure with one GPU does not keep others from theirs.

        With the lock of the driver's folder.
        """
        recorded = self._record.read()
        due = {uuid: wish for uuid, wish in wanted.items() if self._differs(uuid, wish, recorded)}
        if not due:
            return {}
        asked = {uuid: wish for uuid, wish in due.items() if wish is not TimeSliceInterval.DEFAULT}
        try:
            await asyncio.to_thread(self._record.write, {**recorded, **asked})
        except OSError as error:
            text = f"{self._record.path} cannot be written: {error.strerror}"
            return {uuid: _failure_text(uuid, wish, text) for uuid, wish in asked.items()}
        reasons = await asyncio.gather(*(self._run(uuid, wish) for uuid, wish in due.items()))
        failed, left = {}, dict(self._record.read())
        for (uuid, wish), reason in zip(due.items(), reasons, strict=True):
            text = _failure_text(uuid, wish, reason)
            if not reason:
                self._set[uuid] = wish
                if wish is TimeSliceInterval.DEFAULT:
                    left.pop(uuid, None)
            elif wish is TimeSliceInterval.DEFAULT:
                self._later[uuid] = time.monotonic() + HUNG_RETRY_DELAY
                log.warning("%s; it is tried again in %.0f s", text, HUNG_RETRY_DELAY)
            else:
                failed[uuid] = text
                if reason is not _HUNG and uuid not in recorded:
                    left.pop(uuid, None)  # it was refused, so it is as it was before
        with contextlib.suppress(OSError):  # then it is wider than the truth: it is set back once more
            await asyncio.to_thread(self._record.write, left)
        return failed

    def _differs(self, uuid: str, wish: TimeSliceInterval, recorded: Mapping[str, TimeSliceInterval]) -> bool:
        """Whether a GPU has, or may have, something else than what is wanted."""
        if wish is TimeSliceInterval.DEFAULT:
            return uuid in recorded and time.monotonic() >= self._later.get(uuid, 0.0)
        return self._set.get(uuid) is not wish or recorded.get(uuid) is not wish

    async def _run(self, uuid: str, interval: TimeSliceInterval) -> str:
        program = self._root.program("nvidia-smi")
        if program is None:
            return self.unable
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


def _failure_text(uuid: str, wish: TimeSliceInterval, reason: str) -> str:
    return f"GPU {uuid}: time slice {wish} cannot be set: {reason}"
