"""How long a process computes on a GPU before the next one does: set by ``nvidia-smi``, there is no other way to.

The setting belongs to the GPU and outlives whoever made it. So the driver owns it as soon as one claim has asked for it
while this process runs, or had asked for it when this process started: it is set, and set back when the claim is gone.
GPUs that no claim of ours ever asked for are left as their administrator has set them.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

from dra.api.parameters.gpu import TimeSlice
from kubeletplugin.drivers.gpu.driver_root import DriverRoot

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 20.0
"""``nvidia-smi`` takes a second or two; a GPU that is lost can hold it up for ever, and all claims wait meanwhile."""

HUNG_SECONDS: Final = 60.0
"""After which a GPU that held it up is tried again."""

_HUNG: Final = f"nvidia-smi has not answered for {TIMEOUT_SECONDS:.0f} s"

ARGUMENTS: Final = {TimeSlice.DEFAULT: "0", TimeSlice.SHORT: "1", TimeSlice.MEDIUM: "2", TimeSlice.LONG: "3"}


class TimeSlicing(Protocol):
    """Sets time slices."""

    @property
    def unable(self) -> str:
        """Why none can be set; empty if they can."""
        ...

    async def apply(self, wanted: Mapping[str, TimeSlice]) -> Mapping[str, str]:
        """Set those of all GPUs, by uuid, where they change; return why not, of those that claims wait for."""
        ...


class SimulatedTimeSlicing:
    """For GPUs that do not compute: what is wanted is what is set."""

    unable = ""

    def __init__(self) -> None:
        self.set: dict[str, TimeSlice] = {}

    async def apply(self, wanted: Mapping[str, TimeSlice]) -> Mapping[str, str]:
        """Note what is set."""
        self.set = dict(wanted)
        return {}


class SmiTimeSlicing:
    """With the ``nvidia-smi`` of the installed driver."""

    def __init__(self, root: DriverRoot) -> None:
        self._root = root
        self._set: dict[str, TimeSlice] = {}
        self._hung: dict[str, float] = {}
        """Until when a GPU is not asked for again."""

    @property
    def unable(self) -> str:
        """Why none can be set."""
        if self._root.program("nvidia-smi") is None:
            return f"there is no nvidia-smi below {self._root.here}"
        return ""

    async def apply(self, wanted: Mapping[str, TimeSlice]) -> Mapping[str, str]:
        """Set what differs from what was set before; a failure with one GPU does not keep others from theirs."""
        due = {uuid: wish for uuid, wish in wanted.items() if self._set.get(uuid, TimeSlice.DEFAULT) is not wish}
        reasons = await asyncio.gather(*(self._run(uuid, wish) for uuid, wish in due.items()))
        failed = {}
        for (uuid, wish), reason in zip(due.items(), reasons, strict=True):
            text = f"GPU {uuid}: time slice {wish} cannot be set: {reason}"
            if not reason:
                self._set[uuid] = wish
            elif wish is TimeSlice.DEFAULT:
                log.warning("%s; it is tried again", text)
            else:
                failed[uuid] = text
        return failed

    async def _run(self, uuid: str, interval: TimeSlice) -> str:
        program = self._root.program("nvidia-smi")
        if program is None:
            return self.unable
        if time.monotonic() < self._hung.get(uuid, 0.0):
            return _HUNG
        arguments = ("compute-policy", "-i", uuid, "--set-timeslice", ARGUMENTS[interval])
        process = await asyncio.create_subprocess_exec(
            str(program),
            *arguments,
            env=self._root.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)
        except TimeoutError:
            self._hung[uuid] = time.monotonic() + HUNG_SECONDS
            return _HUNG
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return "" if process.returncode == 0 else output.decode(errors="replace").strip()[:500] or "nvidia-smi failed"
