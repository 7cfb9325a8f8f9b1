"""The record of time slices: a file that lists the GPUs that may have a time slice of this driver.

The file lies in the driver's directory and is written before a time slice is set. The checkpoint contains the time
slices that claims request, but not those that were set for claims that are gone. A process that dies after it has
removed the claim, and before it has reset the GPU, would leave the last user's time slice to the GPU's next user. The
record always includes all GPUs with a time slice: a GPU is removed from it only after its reset.

The record is written with the lock of the driver's directory, like the checkpoint; so each instance of a rolling update
knows which time slices the other has set. It is not synced: a loss of power also resets the GPU.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dra.api.parameters.time_slices import TimeSliceInterval
from kubeletplugin.atomic_files import write_atomically

log = logging.getLogger(__name__)

TIME_SLICES_FILE: Final = "time-slices.json"
_VERSION: Final = 1
_MODE: Final = 0o600


class TimeSliceRecord:
    """The record of time slices by the GPU's uuid; one writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._known: dict[str, TimeSliceInterval] = {}

    def read(self) -> Mapping[str, TimeSliceInterval]:
        """Return the time slices that may be set, by uuid of the GPU.

        A malformed record is logged and counts as empty: claims set their time slices again.
        """
        try:
            state = self.path.stat()
        except FileNotFoundError:
            self._seen, self._known = None, {}
            return self._known
        seen = (state.st_ino, state.st_mtime_ns, state.st_size)
        if seen != self._seen:
            self._known, self._seen = self._parsed(), seen
        return self._known

    def write(self, slices: Mapping[str, TimeSliceInterval]) -> None:
        """Replace the record; raises OSError, and then the old record is unchanged."""
        if slices == self.read():
            return
        body = {"version": _VERSION, "gpus": {uuid: str(interval) for uuid, interval in sorted(slices.items())}}
        state = write_atomically(self.path, json.dumps(body, indent=1).encode(), mode=_MODE, sync=False)
        self._known, self._seen = dict(slices), (state.st_ino, state.st_mtime_ns, state.st_size)

    def _parsed(self) -> dict[str, TimeSliceInterval]:
        try:
            content = json.loads(self.path.read_bytes())
            return {str(uuid): TimeSliceInterval(interval) for uuid, interval in content["gpus"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning(
                "file %s: cannot be parsed (%r); GPUs may still have the time slices of former claims. "
                "Reset them with: nvidia-smi compute-policy --set-timeslice 0",
                self.path,
                error,
            )
            return {}
