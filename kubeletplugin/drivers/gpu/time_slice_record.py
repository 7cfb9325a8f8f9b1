"""Which GPUs may have a time slice of ours: a file in the driver's folder, written before anything is set.

The checkpoint says what claims want; it does not say what was set for a claim that is not in it any more. A process
that dies after it has forgotten the claim, and before it has set the GPU back, would leave the GPU's next user
with the slice of the last one. The file is never narrower than the truth: a GPU leaves it after it has been set back.

Written with the lock of the driver's folder, like the checkpoint; so the two instances of a rolling update know what
the other has set. Not synced: a loss of power takes the setting from the GPU as well.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dra.api.parameters.gpu import TimeSliceInterval
from kubeletplugin.atomic_files import write_atomically

log = logging.getLogger(__name__)

TIME_SLICES_FILE: Final = "time-slices.json"
_VERSION: Final = 1
_MODE: Final = 0o600


class TimeSliceRecord:
    """By uuid of the GPU; one writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._known: dict[str, TimeSliceInterval] = {}

    def read(self) -> Mapping[str, TimeSliceInterval]:
        """Return what may be set. One that cannot be understood is told, and says nothing: claims set theirs anew."""
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
        """Replace it; raises OSError, and then the old one is still there."""
        if slices == self.read():
            return
        body = {"version": _VERSION, "gpus": {uuid: str(each) for uuid, each in sorted(slices.items())}}
        state = write_atomically(self.path, json.dumps(body, indent=1).encode(), mode=_MODE, sync=False)
        self._known, self._seen = dict(slices), (state.st_ino, state.st_mtime_ns, state.st_size)

    def _parsed(self) -> dict[str, TimeSliceInterval]:
        try:
            content = json.loads(self.path.read_bytes())
            return {str(uuid): TimeSliceInterval(each) for uuid, each in content["gpus"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning(
                "file %s: cannot be understood (%r); GPUs that no claim wants a time slice of may have one still. "
                "Set them back with: nvidia-smi compute-policy --set-timeslice 0",
                self.path,
                error,
            )
            return {}
