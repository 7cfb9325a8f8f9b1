"""GPU inventory from NVIDIA's management library (NVML).

The library is loaded at the first reading: a node without NVIDIA's driver does not need it. Every query may fail, and
only two are required: uuid and minor. Other attributes that fail are omitted; an attribute that was read once stays, so
that a temporary failure does not change the published device.

A GPU stays in the inventory once it was seen. A lost GPU (it has fallen off the bus, or the driver is gone) gets a
fault and keeps its known attributes: claims that use the GPU must learn of the fault. Its minor and index are those of
the last time; another GPU may have them now. GPUs that report the same uuid are all in the inventory.
"""

import asyncio
import ctypes
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from collections.abc import Set as AbstractSet
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec

from kubeletplugin.inventory.gpu_use import GpuUse
from kubeletplugin.inventory.gpus import GPU_LOST, Gpu, GpuFault, GpusUnavailableError
from kubeletplugin.inventory.nvidia import LIST_COMMAND, NVIDIA, nvidia_driver_mark
from kubeletplugin.inventory.nvml_events import IGNORED_XIDS, FaultsByGpu, NvmlEventMonitor, WaitOutcome
from kubeletplugin.inventory.nvml_use import NvmlUseReader
from kubeletplugin.inventory.pci import PciDevices, normalize_pci_address

log = logging.getLogger(__name__)

BRANDS: Final = {
    0: "Unknown",
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "Grid",
    5: "GeForce",
    6: "Titan",
    7: "NvidiaVApps",
    8: "NvidiaVPC",
    9: "NvidiaVCS",
    10: "NvidiaVWS",
    11: "NvidiaCloudGaming",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
    15: "GeForceRTX",
    16: "TitanRTX",
}
"""Names of brands, as NVIDIA's Go library writes them."""

ARCHITECTURES: Final = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}

POLL_INTERVAL: Final = 30.0
"""Seconds between readings without an event: the loss of a GPU does not always cause one."""

EVENT_WAIT_SECONDS: Final = 1.0

_MIG_ON: Final = 1
_GPU_IS_LOST: Final = 15
_LIBRARY_MISMATCH: Final = 18
_INIT_WITHOUT_GPUS: Final = 1


class NvmlUnavailableError(GpusUnavailableError):
    """NVML is not available; the text gives the reason."""


def load_nvml(path: Path | None = None) -> Any:  # noqa: ANN401 - a module, or what stands for it in a test
    """Return the Python binding of NVML; `path` names ``libnvidia-ml.so.1`` where the loader would not find it."""
    try:
        if path is not None:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)  # the binding loads it by name, and gets this one
        return importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise NvmlUnavailableError(
            "package nvidia-ml-py is not installed; install it with: pip install nvidia-ml-py"
        ) from error
    except (ImportError, OSError) as error:
        raise NvmlUnavailableError(f"NVML cannot be loaded: {error}") from error


class NvmlGpuInventory:
    """The inventory of GPUs that NVML reports."""

    def __init__(
        self,
        load: Callable[[], Any] = load_nvml,
        *,
        sysfs: Path = Path("/sys"),
        proc: Path = Path("/proc"),
        ignored_xids: frozenset[int] = IGNORED_XIDS,
        every: float = POLL_INTERVAL,
    ) -> None:
        self._load = load
        self._pci = PciDevices(sysfs)
        self._roots = {"sysfs": sysfs, "proc": proc}
        self._reading = Lock()
        """Held while NVML is read: the driver reads when it is told of a change, and before it prepares claims."""
        self._ignored = ignored_xids
        self._every = every
        self._nvml: Any = None
        self._events: NvmlEventMonitor | None = None
        self._known: dict[str, Gpu] = {}
        """Known GPUs by uuid, without faults; by uuid and address if an earlier GPU reports the same uuid."""

        self._lost: dict[str, GpuFault] = {}
        self._event_faults: FaultsByGpu = {}
        self._use = NvmlUseReader()

    def read_use(self) -> tuple[GpuUse, ...]:
        """Return what each GPU does; none while NVML is not available."""
        with self._reading:
            return () if self._nvml is None else self._use.read(self._nvml)

    def read(self) -> tuple[Gpu, ...]:
        """Return the known GPUs; raises NvmlUnavailableError if NVML has never reported a GPU."""
        with self._reading:
            return self._read()

    def mark(self) -> Hashable:
        """Return a fingerprint of the kernel driver and of its GPUs."""
        return nvidia_driver_mark(**self._roots)

    def _read(self) -> tuple[Gpu, ...]:
        self._lost = {}
        try:
            self._enumerate()
        except NvmlUnavailableError as error:
            if not self._known:
                raise
            self._lost = {uuid: GpuFault(reason=GPU_LOST, message=str(error)) for uuid in self._known}
            self._close()  # NVML must be initialized again when the driver is back
        events = self._events
        gpus = (
            msgspec.structs.replace(
                gpu,
                faults=(*self._faults(key), *(events.faults(gpu.uuid) if events is not None else ())),
                monitored=events is not None and events.watches(key),
            )
            for key, gpu in self._known.items()
        )
        return tuple(sorted(gpus, key=lambda gpu: gpu.minor))

    async def changes(self, known: tuple[Gpu, ...]) -> AsyncIterator[None]:
        """Yield whenever a GPU reports a fault, is lost, or appears."""
        while True:
            await self._wait_for_event()
            now = await asyncio.to_thread(self.read)
            if now != known:
                known = now
                yield

    async def _wait_for_event(self) -> None:
        """Wait for an event, at most until the next periodic reading."""
        waited = 0.0
        while waited < self._every:
            pause = min(self._every - waited, EVENT_WAIT_SECONDS)
            # The thread cannot be cancelled: wait in short steps, or the end of the process would be delayed.
            came = WaitOutcome.UNKNOWN if self._events is None else await asyncio.to_thread(self._events.wait, pause)
            if came is WaitOutcome.EVENT:
                return
            if came is WaitOutcome.UNKNOWN:
                await asyncio.sleep(pause)
            waited += pause

    def _enumerate(self) -> None:
        nvml = self._open()
        try:
            versions = (str(_text(nvml.nvmlSystemGetDriverVersion())), self._cuda_version())
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise NvmlUnavailableError(f"NVML does not answer: {error}") from error
        listed: set[str] = set()
        failed: dict[int, Exception] = {}
        for index in range(count):
            try:
                listed.add(self._look(index, versions, listed))
            except nvml.NVMLError as error:
                failed[index] = error
        for index, failure in failed.items():  # last: after a reload another GPU may have had this index
            key = next((key for key, gpu in self._known.items() if gpu.index == index and key not in listed), "")
            if key:
                self._lost[key] = GpuFault(reason=GPU_LOST, message=str(failure))
            else:
                log.warning("GPU %d is omitted: %s", index, failure)
        for key in self._known.keys() - listed - self._lost.keys():
            self._lost[key] = GpuFault(reason=GPU_LOST, message="NVML no longer lists it")

    def _look(self, index: int, versions: tuple[str, str], listed: AbstractSet[str]) -> str:
        """Update the known attributes of a GPU and return its key in `_known`; raises NVMLError.

        `listed` are the keys of the GPUs with lower indexes.
        """
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, minor = str(_text(nvml.nvmlDeviceGetUUID(handle))), int(nvml.nvmlDeviceGetMinorNumber(handle))
        key = uuid if uuid not in listed else f"{uuid} at {self._address(handle) or index}"
        new = Gpu(minor=minor, index=index, uuid=uuid, vendor=NVIDIA, list_command=LIST_COMMAND)
        before = self._known.get(key, new)
        answers = self._query(handle, key)
        capability = answers.pop("compute_capability", "")
        cuda = {"cudaComputeCapability": capability, "cudaDriverVersion": versions[1]}
        at = answers.get("pci_bus_id", before.pci_bus_id)
        numa_node = self._pci.numa_node(at)
        self._known[key] = msgspec.structs.replace(
            before,
            minor=minor,
            index=index,
            driver_version=versions[0],
            versions={**before.versions, **{name: version for name, version in cuda.items() if version}},
            pcie_root=self._pci.root(at) or before.pcie_root,
            numa_node=before.numa_node if numa_node is None else numa_node,
            nodes=(f"/dev/nvidia{minor}",),
            **answers,
        )
        if self._events is not None:
            self._events.watch(key, handle)
            if key == uuid:  # faults of GPUs that share a uuid may be those of another one
                self._events.forget_recovered(uuid, handle, settled_seconds=self._every)
        return key

    def _address(self, handle: object) -> str:
        try:
            return normalize_pci_address(str(_text(self._nvml.nvmlDeviceGetPciInfo(handle).busId)))
        except self._nvml.NVMLError:
            return ""

    def _query(self, handle: object, key: str) -> dict[str, Any]:
        nvml = self._nvml
        questions: dict[str, Callable[[], Any]] = {
            "product": lambda: _text(nvml.nvmlDeviceGetName(handle)),
            "brand": lambda: BRANDS.get(nvml.nvmlDeviceGetBrand(handle), ""),
            "architecture": lambda: ARCHITECTURES.get(nvml.nvmlDeviceGetArchitecture(handle), ""),
            "compute_capability": lambda: ".".join(map(str, nvml.nvmlDeviceGetCudaComputeCapability(handle))),
            "memory": lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            "pci_bus_id": lambda: normalize_pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
            "partitioning": lambda: "MIG mode" if nvml.nvmlDeviceGetMigMode(handle)[0] == _MIG_ON else "",
        }
        answers = {}
        for name, question in questions.items():
            try:
                answers[name] = question()
            except nvml.NVMLError as error:
                if error.value == _GPU_IS_LOST:
                    self._lost[key] = GpuFault(reason=GPU_LOST, message=str(error))
        return answers

    def _cuda_version(self) -> str:
        try:
            number = int(self._nvml.nvmlSystemGetCudaDriverVersion_v2())
        except self._nvml.NVMLError:
            return ""
        return f"{number // 1000}.{number % 1000 // 10}"

    def _faults(self, key: str) -> tuple[GpuFault, ...]:
        return (self._lost[key],) if key in self._lost else ()

    def _open(self) -> Any:  # noqa: ANN401
        if self._nvml is None:
            nvml = self._load()
            try:
                nvml.nvmlInitWithFlags(_INIT_WITHOUT_GPUS)
            except nvml.NVMLError as error:
                stale = "; a new library is loaded only by a new process: restart the plugin's pod on this node"
                advice = stale if error.value == _LIBRARY_MISMATCH else ""
                raise NvmlUnavailableError(f"NVML cannot be used: {error}{advice}") from error
            self._nvml = nvml
            self._events = NvmlEventMonitor(nvml, self._event_faults, ignored=self._ignored)
        return self._nvml

    def _close(self) -> None:
        if self._nvml is None:
            return
        if self._events is not None:
            self._events.close()
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            log.info("NVML could not be closed: %s", error)
        self._nvml = None


def _text(value: str | bytes) -> str:
    """Return a value of the binding as text: some versions of the binding return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
