"""Time slices of GPUs: how long a process computes before the next one does.

The setting belongs to the GPU and outlives the process that made it. So the driver owns the setting as soon as one
claim requests it: the driver sets it, and resets it when the claim is gone. GPUs for which no claim ever requested a
time slice keep their administrator's setting.
"""

from collections.abc import Mapping
from typing import Protocol

from dra.api.parameters.time_slices import TimeSliceInterval


class TimeSlicingManager(Protocol):
    """The manager of the time slices of all GPUs."""

    @property
    def unavailable_reason(self) -> str:
        """The reason why no time slice can be set; empty if they can."""
        ...

    async def apply(self, wanted: Mapping[str, TimeSliceInterval]) -> Mapping[str, str]:
        """Set the changed time slices of all GPUs, by uuid; return the failures that affect claims, by uuid."""
        ...

    def forget(self) -> None:
        """Forget what has been set: the kernel driver was loaded again, and GPUs may have lost it."""
        ...


class SimulatedTimeSlicingManager:
    """The manager of simulated GPUs, which only records the time slices."""

    unavailable_reason = ""

    def __init__(self) -> None:
        self.set: dict[str, TimeSliceInterval] = {}

    async def apply(self, wanted: Mapping[str, TimeSliceInterval]) -> Mapping[str, str]:
        """Record the wanted time slices as set."""
        self.set = dict(wanted)
        return {}

    def forget(self) -> None:
        """Forget the recorded time slices."""
        self.set.clear()


class UnsupportedTimeSlicing:
    """The manager of GPUs whose vendor has no time slices; claims cannot request any."""

    unavailable_reason = "these GPUs have no time slices"

    async def apply(self, wanted: Mapping[str, TimeSliceInterval]) -> Mapping[str, str]:
        """Set nothing: no claim has a time slice."""
        del wanted
        return {}

    def forget(self) -> None:
        """Forget nothing, as nothing was set."""
