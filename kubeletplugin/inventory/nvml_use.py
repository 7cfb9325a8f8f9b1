"""Reads what GPUs do at the moment, as NVML reports it. Each query may fail; what fails is left out, never 0."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from kubeletplugin.inventory.gpu_use import GpuProcess, GpuUse

T = TypeVar("T")

PROCESSES_MAX: Final = 8192
"""Processes of a GPU that are looked at, at most.

A tenant decides how many there are. The bound is above what fits into the memory of a GPU, so that no tenant hides the
processes of others.
"""

_PROCESS_LISTS: Final = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")


class NvmlUseReader:
    """Reads what the GPUs do; remembers until when the use by processes was read."""

    def __init__(self) -> None:
        self._read_until: dict[str, int] = {}
        """Microseconds of the last sample of processes, by the GPU's uuid."""

    def read(self, nvml: Any) -> tuple[GpuUse, ...]:  # noqa: ANN401 - the module
        """Return what each GPU does; GPUs without uuid or memory are left out."""
        count = _ask(nvml, nvml.nvmlDeviceGetCount) or 0
        uses = (_ask(nvml, self._read_gpu, nvml, index) for index in range(count))
        known = tuple(use for use in uses if use is not None)
        self._read_until = {use.uuid: self._read_until.get(use.uuid, 0) for use in known}
        return known

    def _read_gpu(self, nvml: Any, index: int) -> GpuUse:  # noqa: ANN401
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(handle)
        uuid = uuid.decode(errors="replace") if isinstance(uuid, bytes) else str(uuid)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        rates = _ask(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
        return GpuUse(
            uuid=uuid,
            minor=_ask(nvml, nvml.nvmlDeviceGetMinorNumber, handle),
            memory_used_bytes=int(memory.used),
            memory_total_bytes=int(memory.total),
            utilization_percent=None if rates is None else float(rates.gpu),
            processes=self._read_processes(nvml, handle, uuid),
        )

    def _read_processes(self, nvml: Any, handle: object, uuid: str) -> tuple[GpuProcess, ...]:  # noqa: ANN401
        memory: dict[int, int] = {}
        for name in _PROCESS_LISTS:
            for process in (_ask(nvml, getattr(nvml, name), handle) or [])[:PROCESSES_MAX]:
                # A process may be in both lists, each time with all of its memory; None where NVML does not tell.
                memory[int(process.pid)] = max(memory.get(int(process.pid), 0), int(process.usedGpuMemory or 0))
        percents = self._read_utilization(nvml, handle, uuid)
        return tuple(
            GpuProcess(pid=pid, memory_bytes=memory.get(pid, 0), utilization_percent=percents.get(pid))
            for pid in sorted(memory.keys() | percents.keys())
        )

    def _read_utilization(self, nvml: Any, handle: object, uuid: str) -> dict[int, float]:  # noqa: ANN401
        """Return the average utilization of each process since the last call; empty if no process has used the GPU."""
        since = self._read_until.get(uuid, 0)
        samples = _ask(nvml, nvml.nvmlDeviceGetProcessUtilization, handle, since) or []
        by_pid: dict[int, list[float]] = {}
        for sample in samples[:PROCESSES_MAX]:
            if sample.timeStamp > since:
                by_pid.setdefault(int(sample.pid), []).append(float(sample.smUtil))
        self._read_until[uuid] = max((since, *(int(sample.timeStamp) for sample in samples)))
        return {pid: sum(values) / len(values) for pid, values in by_pid.items()}


def _ask(nvml: Any, question: Callable[..., T], *arguments: object) -> T | None:  # noqa: ANN401
    """Return the answer; None if NVML refuses it."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None
