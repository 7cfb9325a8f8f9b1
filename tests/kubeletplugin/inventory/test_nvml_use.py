"""What GPUs do, as NVML tells it, with errors at every function."""

from types import SimpleNamespace

import pytest

from kubeletplugin.inventory.gpu_use import GpuProcess, GpuUseSource
from kubeletplugin.inventory.nvml import NvmlGpuInventory
from kubeletplugin.inventory.nvml_use import PROCESSES_MAX, NvmlUseReader
from tests.kubeletplugin.inventory.pynvml import GPU_IS_LOST, NOT_SUPPORTED, Nvml, NVMLError, device

GIB = 2**30


def process(pid, memory):
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


def sample(pid, at, percent):
    return SimpleNamespace(pid=pid, timeStamp=at, smUtil=percent)


class BusyNvml(Nvml):
    """NVML with samples of processes, which take a time as a second argument."""

    def __init__(self, *devices, samples=()):
        super().__init__(*devices)
        self.samples = list(samples)
        self.asked_since = []

    def nvmlDeviceGetProcessUtilization(self, handle, since):  # noqa: N802
        self.asked_since.append((handle["nvmlDeviceGetUUID"], since))
        if not self.samples:
            raise NVMLError(6)  # NOT_FOUND: nobody has used the GPU
        return self.samples


def busy(number=0, **answers):
    return device(
        number,
        **{
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 * GIB, used=20 * GIB),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=85, memory=40),
            "nvmlDeviceGetComputeRunningProcesses": [process(10, 8 * GIB), process(11, None)],
            "nvmlDeviceGetGraphicsRunningProcesses": [process(10, 8 * GIB)],
        }
        | answers,
    )


def test_a_gpu_tells_its_utilization_memory_and_processes():
    nvml = BusyNvml(busy(), samples=[sample(10, 5, 60), sample(10, 7, 80), sample(12, 7, 5)])
    (use,) = NvmlUseReader().read(nvml)
    assert (use.uuid, use.minor, use.utilization_percent) == ("GPU-0", 0, 85.0)
    assert (use.memory_used_bytes, use.memory_total_bytes) == (20 * GIB, 80 * GIB)
    assert use.processes == (
        GpuProcess(pid=10, memory_bytes=8 * GIB, utilization_percent=70.0),
        GpuProcess(pid=11, memory_bytes=0, utilization_percent=None),
        GpuProcess(pid=12, memory_bytes=0, utilization_percent=5.0),
    )


def test_samples_of_processes_are_asked_for_since_the_last_one_of_that_gpu():
    nvml, reader = BusyNvml(busy(), samples=[sample(10, 7, 80)]), NvmlUseReader()
    reader.read(nvml)
    (use,) = reader.read(nvml)
    assert nvml.asked_since == [("GPU-0", 0), ("GPU-0", 7)]
    assert use.processes[0].utilization_percent is None, "an old sample does not count again"


@pytest.mark.parametrize(
    ("function", "lost"),
    [
        pytest.param("nvmlDeviceGetUtilizationRates", {"utilization_percent": None}, id="partitioned"),
        pytest.param("nvmlDeviceGetMinorNumber", {"minor": None}, id="no-minor"),
        pytest.param("nvmlDeviceGetComputeRunningProcesses", {}, id="no-list-of-processes"),
    ],
)
def test_what_a_gpu_does_not_tell_is_absent_not_zero(function, lost):
    (use,) = NvmlUseReader().read(BusyNvml(busy(**{function: NVMLError(NOT_SUPPORTED)})))
    for name, value in lost.items():
        assert getattr(use, name) == value
    assert use.memory_used_bytes == 20 * GIB


@pytest.mark.parametrize("function", ["nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"])
def test_a_gpu_that_is_lost_is_left_out_and_others_are_read(function):
    nvml = BusyNvml(busy(**{function: NVMLError(GPU_IS_LOST)}), busy(1))
    assert [use.uuid for use in NvmlUseReader().read(nvml)] == ["GPU-1"]


def test_processes_are_bounded_in_number():
    many = [process(pid, 1) for pid in range(5 * PROCESSES_MAX)]
    (use,) = NvmlUseReader().read(BusyNvml(busy(nvmlDeviceGetComputeRunningProcesses=many)))
    assert len(use.processes) == PROCESSES_MAX


def test_a_tenant_with_a_process_in_every_64_mib_of_a_gpu_hides_no_other():
    processes = [process(pid, 1) for pid in range(288 * 1024 // 64)]
    (use,) = NvmlUseReader().read(BusyNvml(busy(nvmlDeviceGetComputeRunningProcesses=[*processes, process(9999, 1)])))
    assert use.processes[-1].pid == 9999


def test_the_inventory_reads_use_once_it_has_opened_nvml(tmp_path):
    inventory = NvmlGpuInventory(lambda: BusyNvml(busy()), sysfs=tmp_path)
    assert isinstance(inventory, GpuUseSource)
    assert inventory.read_use() == ()
    inventory.read()
    assert [use.uuid for use in inventory.read_use()] == ["GPU-0"]
