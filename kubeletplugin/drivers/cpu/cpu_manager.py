"""Whether the kubelet hands out CPUs itself.

With ``cpuManagerPolicy: static`` the kubelet writes the cpusets of all containers, again every ten seconds. Two
writers of one cpuset undo each other for ever, and a container would run on CPUs that were promised to another one. So
this driver steps aside: it publishes nothing, prepares nothing and writes nothing, until the policy is ``none`` again.
Its state file says which it is, and is there from the kubelet's first start on.

The kubelet replaces the file when what it says changes. Whoever has it mounted alone, since the folder around it has
the volumes of all pods, then sees a file without a name, which says no longer what is: in doubt we step aside.
"""

import json
from pathlib import Path
from typing import Any, Final

STATE: Final = "cpu_manager_state"


class CpuManager:
    """The kubelet's, as its state file shows it."""

    def __init__(self, kubelet: Path) -> None:
        """Take the kubelet's root folder."""
        self._file = kubelet / STATE
        self._seen: tuple[int, int, int] | None = None
        self._why: str | None = None

    def active(self) -> str | None:
        """Return why cpusets are the kubelet's; None if they are not."""
        try:
            state = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None  # it has never started here
        if state.st_nlink == 0:
            return (
                f"{self._file} has been replaced by the kubelet, which may be managing CPUs itself now, "
                "and its new content cannot be seen here; delete the plugin's pod on this node, for a new one to look"
            )
        seen = (state.st_ino, state.st_mtime_ns, state.st_size)
        if seen != self._seen:
            self._why = self._read()
            self._seen = seen
        return self._why

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
