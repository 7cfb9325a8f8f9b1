"""Whether the kubelet hands out CPUs itself.

With ``cpuManagerPolicy: static`` the kubelet writes the cpusets of all containers, again every ten seconds. Two
writers of one cpuset undo each other for ever, and a container would run on CPUs that were promised to another one. So
this driver steps aside: it publishes nothing, prepares nothing and writes nothing, until the policy is ``none`` again.
Its state file says which it is, and is there from the kubelet's first start on.

The kubelet replaces the file when its content changes. A plugin that has the file mounted alone, since the folder
around it has the volumes of all pods, then sees a file without a name, whose content is out of date. A kubelet with
policy ``none`` replaces its file only after somebody has removed the file, and no kubelet starts with another policy
before. So nothing is published or given away until a new pod of the plugin sees the new file. Claims that have CPUs
keep them meanwhile if the policy was ``none``: draining the node is part of changing the policy, so where claims have
CPUs the policy has most likely not changed.
"""

import json
from pathlib import Path
from typing import Any, Final

from dra.model.meta import Struct

STATE_FILE: Final = "cpu_manager_state"


class CpuManagerConflict(Struct, frozen=True):
    """Why no CPUs are given away."""

    why: str
    written: bool = True
    """Whether cpusets must be taken to be written by the kubelet; if not, CPUs of claims stay enforced."""


class KubeletCpuManager:
    """The kubelet's, as its state file shows it."""

    def __init__(self, kubelet: Path) -> None:
        """Take the kubelet's root folder."""
        self._file = kubelet / STATE_FILE
        self._seen: tuple[int, int, int] | None = None
        self._why: str | None = None

    def active(self) -> CpuManagerConflict | None:
        """Return why CPUs are not ours to give away; None if they are."""
        try:
            state = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None  # it has never started here
        seen = (state.st_ino, state.st_mtime_ns, state.st_size)
        if seen != self._seen:
            self._why = self._read()
            self._seen = seen
        if state.st_nlink == 0:
            return CpuManagerConflict(
                why=f"{self._file} has been removed or replaced, the kubelet may be managing CPUs itself now, "
                "and its new content cannot be seen here; delete the plugin's pod on this node, for a new one to look",
                written=self._why is not None,
            )
        return None if self._why is None else CpuManagerConflict(why=self._why)

    def _read(self) -> str | None:
        try:
            content: Any = json.loads(self._file.read_bytes())
            policy = content["policyName"]
            pods = len((content.get("entries") or {}).keys() | (content.get("podEntries") or {}).keys())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return f"{self._file} cannot be understood ({error!r}), the kubelet may be managing CPUs itself"
        if policy == "none" and not pods:
            return None
        given = f", with CPUs given to {pods} pods" if pods else ""
        return (
            f"the kubelet manages CPUs itself (policy {policy} in {self._file}{given}), and two writers of one cpuset "
            f"undo each other; set cpuManagerPolicy: none, drain the node, remove {self._file}, restart the kubelet"
        )
