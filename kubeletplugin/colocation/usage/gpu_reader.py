"""Reads what GPUs do, for whom: the processes on a GPU belong to pods, as their cgroups show.

NVML names processes by their ids in the pid namespace of the host. In another namespace the same id is that of another
process, perhaps of this one; so processes are looked up only in the host's namespace (``hostPID``).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from dra.engine.usage.samples import GpuProcessUse, GpuReading
from dra.model.meta import Uid
from kubeletplugin.cgroups.cgroup_names import pod_uid_of_process
from kubeletplugin.inventory.gpu_use import GpuProcess, GpuUse, GpuUseSource

HOST_PID_NAMESPACE: Final = "pid:[4026531836]"
"""The first pid namespace of every Linux kernel (PROC_PID_INIT_INO)."""

_log: Final = logging.getLogger(__name__)


class GpuUseReader:
    """Reads what the GPUs of some drivers do, and for which pods."""

    def __init__(self, sources: Sequence[GpuUseSource], *, proc: Path = Path("/proc")) -> None:
        self._sources = sources
        self._proc = proc
        self._has_warned = False

    def read(self, uids: Mapping[str, Uid]) -> list[GpuReading]:
        """Return what each GPU does; `uids` maps the uids in names of cgroups to those of pods. May take seconds."""
        return [self._reading(use, uids) for source in self._sources for use in source.read_use()]

    def _reading(self, use: GpuUse, uids: Mapping[str, Uid]) -> GpuReading:
        return GpuReading(
            uuid=use.uuid,
            minor=use.minor,
            utilization_percent=use.utilization_percent,
            memory_used_bytes=use.memory_used_bytes,
            memory_total_bytes=use.memory_total_bytes,
            pods=self._by_pod(use.processes, uids) if use.processes and self._sees_processes() else {},
        )

    def _by_pod(self, processes: Iterable[GpuProcess], uids: Mapping[str, Uid]) -> dict[Uid, GpuProcessUse]:
        pods: dict[Uid, GpuProcessUse] = {}
        for process in processes:
            uid = self._pod_of(process.pid, uids)
            if uid is None:
                continue
            before = pods.get(uid)
            percents = [process.utilization_percent, None if before is None else before.utilization_percent]
            known = [percent for percent in percents if percent is not None]
            pods[uid] = GpuProcessUse(
                utilization_percent=min(100.0, sum(known)) if known else None,
                memory_bytes=process.memory_bytes + (0 if before is None else before.memory_bytes),
            )
        return pods

    def _pod_of(self, pid: int, uids: Mapping[str, Uid]) -> Uid | None:
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
        except OSError:  # the process has ended
            return None
        return uids.get(pod_uid_of_process(text) or "")

    def _sees_processes(self) -> bool:
        """Report whether process ids here are those of the host; log once if they are not."""
        try:
            is_host = str((self._proc / "self/ns/pid").readlink()) == HOST_PID_NAMESPACE
        except OSError:
            is_host = False
        if not is_host and not self._has_warned:
            _log.warning(
                "GPUs: which pods use them is unknown, since the plugin runs in a pid namespace of its own; set "
                "hostPID in its DaemonSet, as the component colocation does"
            )
            self._has_warned = True
        return is_host
