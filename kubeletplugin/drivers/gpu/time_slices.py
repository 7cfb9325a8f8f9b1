"""How long a process computes on a GPU before the next one does: set by ``nvidia-smi``, there is no other way to.

The setting belongs to the GPU and outlives whoever made it. So the driver owns it as soon as one claim has asked for it
while this process runs, or had asked for it when this process started: it is set, and set back when the claim is gone.
GPUs that no claim of ours ever asked for are left as their administrator has set them.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from dra.api.parameters.gpu import TimeSlice
from kubeletplugin.contract import Refused
from kubeletplugin.drivers.gpu.driver_root import DriverRoot

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 20.0
"""``nvidia-smi`` takes a second or two; a GPU that is lost can hold it up for ever."""

ARGUMENTS: Final = {TimeSlice.DEFAULT: "0", TimeSlice.SHORT: "1", TimeSlice.MEDIUM: "2", TimeSlice.LONG: "3"}


class TimeSlicing(Protocol):
    """Sets time slices."""

    @property
    def unable(self) -> str:
        """Why none can be set; empty if they can."""
        ...

    async def apply(self, wanted: Mapping[str, TimeSlice]) -> None:
        """Set those of all GPUs, by uuid; does nothing where nothing changes. Raises Refused."""
        ...


class SimulatedTimeSlicing:
    """For GPUs that do not compute: what is wanted is what is set."""

    unable = ""

    def __init__(self) -> None:
        self.set: dict[str, TimeSlice] = {}

    async def apply(self, wanted: Mapping[str, TimeSlice]) -> None:
        """Note what is set."""
        self.set = dict(wanted)


class SmiTimeSlicing:
    """With the ``nvidia-smi`` of the installed driver."""

    def __init__(self, root: DriverRoot) -> None:
        self._root = root
        self._set: dict[str, TimeSlice] = {}

    @property
    def unable(self) -> str:
        """Why none can be set."""
        if self._root.program("nvidia-smi") is None:
            return f"there is no nvidia-smi below {self._root.here}"
        return ""

    async def apply(self, wanted: Mapping[str, TimeSlice]) -> None:
        """Set what differs from what was set before; a failure with one GPU does not keep others from theirs."""
        failed = []
        for uuid, interval in wanted.items():
            if self._set.get(uuid, TimeSlice.DEFAULT) is interval:
                continue
            if reason := await self._run(uuid, interval):
                text = f"GPU {uuid}: time slice {interval} cannot be set: {reason}"
                if interval is TimeSlice.DEFAULT:
                    log.warning("%s; it is tried again", text)
                else:
                    failed.append(text)
            else:
                self._set[uuid] = interval
        if failed:
            raise Refused("; ".join(failed))

    async def _run(self, uuid: str, interval: TimeSlice) -> str:
        program = self._root.program("nvidia-smi")
        if program is None:
            return self.unable
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
            return f"nvidia-smi has not answered for {TIMEOUT_SECONDS:.0f} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return "" if process.returncode == 0 else output.decode(errors="replace").strip()[:500] or "nvidia-smi failed"
