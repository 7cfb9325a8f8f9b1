"""GPUs as NVML tells of them: with errors at every function, events, and losses."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from kubeletplugin.inventory.gpus import Gpu, GpuFault
from kubeletplugin.inventory.nvml import NvmlGpuInventory, NvmlUnavailableError, load_nvml
from kubeletplugin.inventory.nvml_events import WaitOutcome
from kubeletplugin.inventory.pci import normalize_pci_address
from tests.kubeletplugin.inventory import pynvml
from tests.kubeletplugin.inventory.pynvml import GPU_IS_LOST, H100, NOT_SUPPORTED, T4, Nvml, NVMLError, device
from tests.kubeletplugin.inventory.test_sysfs_gpus import pci_device

ESSENTIAL = {"nvmlDeviceGetUUID", "nvmlDeviceGetMinorNumber"}
XID, DOUBLE_BIT, CLOCK = 8, 2, 16

FIELDS = {
    "nvmlDeviceGetName": {"product": ""},
    "nvmlDeviceGetBrand": {"brand": ""},
    "nvmlDeviceGetArchitecture": {"architecture": ""},
    "nvmlDeviceGetCudaComputeCapability": {"versions": {"cudaDriverVersion": "12.8"}},
    "nvmlDeviceGetMemoryInfo": {"memory": 0},
    "nvmlDeviceGetPciInfo": {"pci_bus_id": "", "pcie_root": "", "numa_node": None},
    "nvmlDeviceGetMigMode": {},
    "nvmlDeviceGetSupportedEventTypes": {"monitored": False},
}
"""What is missing of a GPU when a function fails."""


def inventory(nvml, tmp_path, **options):
    return NvmlGpuInventory(lambda: nvml, sysfs=tmp_path / "sys", every=0.001, **options)


@pytest.fixture
def nvml():
    return Nvml(device(0), device(1, T4, nvmlDeviceGetMigMode=NVMLError(NOT_SUPPORTED)))


@pytest.fixture
def gpus(nvml, tmp_path):
    pci_device(tmp_path, "0000:18:00.0", root="pci0000:17", numa_node="1")
    return inventory(nvml, tmp_path)


def test_a_gpu_is_what_nvml_tells_of_it(gpus):
    assert gpus.read() == (
        Gpu(
            minor=0,
            index=0,
            uuid="GPU-0",
            product="NVIDIA H100 80GB HBM3",
            brand="Nvidia",
            architecture="Hopper",
            memory=85520809984,
            driver_version="570.86.15",
            versions={"cudaComputeCapability": "9.0", "cudaDriverVersion": "12.8"},
            vendor="nvidia",
            list_command="nvidia-smi -L",
            pci_bus_id="0000:18:00.0",
            pcie_root="pci0000:17",
            numa_node=1,
            nodes=("/dev/nvidia0",),
        ),
        Gpu(
            minor=1,
            index=1,
            uuid="GPU-1",
            product="Tesla T4",
            brand="Nvidia",
            architecture="Turing",
            memory=16106127360,
            driver_version="570.86.15",
            versions={"cudaComputeCapability": "7.5", "cudaDriverVersion": "12.8"},
            vendor="nvidia",
            list_command="nvidia-smi -L",
            pci_bus_id="0000:19:00.0",
            nodes=("/dev/nvidia1",),
        ),
    )


@pytest.mark.parametrize("function", FIELDS)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, pynvml.FUNCTION_NOT_FOUND, pynvml.UNKNOWN])
def test_what_a_gpu_does_not_tell_is_left_out_and_the_rest_is_there(nvml, gpus, function, code):
    nvml.devices[0][function] = NVMLError(code)
    (found, other) = gpus.read()
    whole = inventory(Nvml(device(0)), gpus._pci._folder.parents[3]).read()[0]
    assert found == msgspec.structs.replace(whole, **FIELDS[function])
    assert other.product == "Tesla T4"


@pytest.mark.parametrize("function", sorted(set(FIELDS) - {"nvmlDeviceGetSupportedEventTypes"}))
@pytest.mark.parametrize("code", [NOT_SUPPORTED, pynvml.UNKNOWN])
def test_what_a_gpu_has_told_once_stays(nvml, gpus, function, code):
    before = gpus.read()
    nvml.devices[0][function] = NVMLError(code)
    assert gpus.read() == before


@pytest.mark.parametrize("function", sorted(ESSENTIAL))
def test_a_gpu_without_uuid_or_minor_is_left_out(nvml, gpus, function):
    nvml.devices[0][function] = NVMLError(pynvml.UNKNOWN)
    assert [each.minor for each in gpus.read()] == [1]


@pytest.mark.parametrize("function", sorted(ESSENTIAL | set(FIELDS) - {"nvmlDeviceGetSupportedEventTypes"}))
def test_a_gpu_that_is_lost_keeps_its_number_and_has_a_fault(nvml, gpus, function):
    before = gpus.read()
    nvml.devices[0][function] = NVMLError(GPU_IS_LOST)
    lost = GpuFault(reason="gpu-lost", message="error 15")
    assert gpus.read() == (msgspec.structs.replace(before[0], faults=(lost,)), before[1])
    nvml.devices[0][function] = device(0)[function]
    assert gpus.read() == before


def test_a_gpu_whose_handle_fails_is_lost(nvml, gpus):
    before = gpus.read()
    nvml.devices[0] = GPU_IS_LOST
    assert [[fault.reason for fault in each.faults] for each in gpus.read()] == [["gpu-lost"], []]
    nvml.devices[0] = device(0)
    assert gpus.read() == before


def test_a_gpu_that_is_not_listed_any_more_is_lost(nvml, gpus):
    gpus.read()
    del nvml.devices[0]
    found = gpus.read()
    assert [(each.minor, [fault.reason for fault in each.faults]) for each in found] == [(0, ["gpu-lost"]), (1, [])]


def test_gpus_that_report_one_uuid_are_all_there(nvml, gpus):
    gpus.read()
    nvml.devices.append(device(2, nvmlDeviceGetUUID="GPU-0"))
    for _ in range(2):
        assert [(each.minor, each.uuid, each.pci_bus_id) for each in gpus.read()] == [
            (0, "GPU-0", "0000:18:00.0"),
            (1, "GPU-1", "0000:19:00.0"),
            (2, "GPU-0", "0000:1a:00.0"),
        ]
    del nvml.devices[2]
    assert [bool(each.faults) for each in gpus.read()] == [False, False, True]


def test_after_a_reload_an_index_that_fails_is_not_that_of_a_gpu_that_has_another_now(nvml, gpus):
    before = gpus.read()
    nvml.devices[:] = [GPU_IS_LOST, device(0, nvmlDeviceGetMinorNumber=1)]  # GPU-1 comes first, and is dead
    found = {each.uuid: each for each in gpus.read()}
    assert (found["GPU-0"].minor, found["GPU-0"].index, found["GPU-0"].faults) == (1, 1, ())
    assert [fault.reason for fault in found["GPU-1"].faults] == ["gpu-lost"]
    nvml.devices[:] = [device(0), device(1, T4, nvmlDeviceGetMigMode=NVMLError(NOT_SUPPORTED))]
    assert gpus.read() == before


def test_a_library_that_is_older_than_the_kernel_module_needs_another_process(nvml, gpus):
    nvml.fails["nvmlInitWithFlags"] = 18
    with pytest.raises(NvmlUnavailableError, match="error 18; a new library is loaded only by a new process: restart"):
        gpus.read()


def test_a_mark_changes_when_the_kernel_driver_is_loaded_again_and_only_then(nvml, tmp_path):
    def load(minor, version="570.86.15"):
        for name, text in (
            ("sys/module/nvidia/version", version),
            ("proc/driver/nvidia/gpus/0000:18:00.0/information", f"Device Minor: {minor}"),
        ):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(text)

    gpus = inventory(nvml, tmp_path, proc=tmp_path / "proc")
    marks = [gpus.mark()]
    for minor, version in ((0, "570.86.15"), (1, "570.86.15"), (1, "575.20.2")):
        load(minor, version)
        marks.append(gpus.mark())
        assert gpus.mark() == marks[-1]
    assert len(set(marks)) == len(marks)


def test_a_partitioned_gpu_is_told(nvml, gpus):
    nvml.devices[0]["nvmlDeviceGetMigMode"] = [1, 1]
    assert [each.partitioning for each in gpus.read()] == ["MIG mode", ""]


def test_a_node_without_the_driver_is_told(nvml, gpus):
    nvml.fails["nvmlInitWithFlags"] = pynvml.DRIVER_NOT_LOADED
    with pytest.raises(NvmlUnavailableError, match="NVML cannot be used: error 9"):
        gpus.read()


@pytest.mark.parametrize("function", ["nvmlSystemGetDriverVersion", "nvmlDeviceGetCount"])
def test_a_driver_that_goes_leaves_faults_and_comes_back(nvml, gpus, function):
    before = gpus.read()
    nvml.fails[function] = pynvml.UNKNOWN
    assert {fault.reason for each in gpus.read() for fault in each.faults} == {"gpu-lost"}
    assert nvml.opened == 0
    nvml.fails["nvmlInitWithFlags"] = pynvml.DRIVER_NOT_LOADED
    assert {fault.reason for each in gpus.read() for fault in each.faults} == {"gpu-lost"}
    nvml.fails.clear()
    assert gpus.read() == before
    assert nvml.opened == 1


def test_a_cuda_version_that_is_not_told_is_left_out(nvml, gpus):
    nvml.fails["nvmlSystemGetCudaDriverVersion_v2"] = pynvml.UNKNOWN
    assert {each.versions.get("cudaDriverVersion") for each in gpus.read()} == {None}


def test_only_events_that_a_gpu_has_are_listened_to(nvml, gpus):
    nvml.devices[0]["nvmlDeviceGetSupportedEventTypes"] = XID | CLOCK
    nvml.devices[1]["nvmlDeviceGetSupportedEventTypes"] = CLOCK
    found = gpus.read()
    gpus.read()
    assert nvml.registered == [("GPU-0", XID)]
    assert [each.monitored for each in found] == [True, False]


def event(handle, kind=XID, data=79):
    return SimpleNamespace(device=handle, eventType=kind, eventData=data)


@pytest.mark.parametrize(
    ("kind", "data", "faults"),
    [
        pytest.param(XID, 79, [GpuFault(reason="xid", value="79", message="XID 79")], id="xid"),
        pytest.param(XID, 31, [], id="the-applications-fault"),
        pytest.param(DOUBLE_BIT, 1, [GpuFault(reason="ecc", message="uncorrectable memory error")], id="memory"),
        pytest.param(CLOCK, 1, [], id="no-failure"),
    ],
)
def test_a_failure_is_a_fault_of_that_gpu(nvml, gpus, kind, data, faults):
    gpus.read()
    nvml.events = [event(nvml.devices[1], kind, data)] * 2
    assert gpus._events.wait(1) is gpus._events.wait(1) is WaitOutcome.EVENT
    assert [list(each.faults) for each in gpus.read()] == [[], faults]


def test_which_errors_are_ignored_can_be_said(nvml, tmp_path):
    gpus = inventory(nvml, tmp_path, ignored_xids=frozenset({79}))
    gpus.read()
    nvml.events = [event(nvml.devices[0])]
    gpus._events.wait(1)
    assert gpus.read()[0].faults == ()


def test_a_failure_of_nobody_knows_whom_makes_all_suspect(nvml, gpus):
    gpus.read()
    nvml.events = [event(device(0, nvmlDeviceGetUUID=NVMLError(GPU_IS_LOST)))]
    gpus._events.wait(1)
    assert [bool(each.faults) for each in gpus.read()] == [True, True]


def test_a_failure_is_not_forgotten_when_the_driver_comes_back(nvml, gpus):
    gpus.read()
    nvml.events = [event(nvml.devices[0])]
    gpus._events.wait(1)
    nvml.fails["nvmlDeviceGetCount"] = pynvml.UNKNOWN
    gpus.read()
    nvml.fails.clear()
    assert [[fault.reason for fault in each.faults] for each in gpus.read()] == [["xid"], []]


GPU_RESET = 1


def fail(nvml, gpus, xid=94):
    gpus.read()
    nvml.events = [event(nvml.devices[0], data=xid)]
    gpus._events.wait(1)


@pytest.mark.parametrize(
    ("action", "messages"),
    [
        pytest.param(0, [], id="well"),
        pytest.param(GPU_RESET, ["XID 94; NVML recommends: reset the GPU"], id="to-be-reset"),
        pytest.param(99, ["XID 94"], id="an-action-of-a-later-driver"),
        pytest.param(NOT_SUPPORTED << 8, ["XID 94"], id="an-older-driver"),
        pytest.param(NVMLError(GPU_IS_LOST), ["XID 94"], id="lost"),
    ],
)
def test_a_failure_is_gone_once_nvml_asks_for_no_recovery(nvml, tmp_path, action, messages):
    gpus = NvmlGpuInventory(lambda: nvml, sysfs=tmp_path, every=0)
    fail(nvml, gpus)
    nvml.devices[0]["recovery_action"] = action
    assert [fault.message for fault in gpus.read()[0].faults] == messages


def test_a_gpu_that_was_reset_is_well_again_and_may_fail_again(nvml, tmp_path):
    gpus = NvmlGpuInventory(lambda: nvml, sysfs=tmp_path, every=0)
    for _ in range(2):
        nvml.devices[0]["recovery_action"] = GPU_RESET
        fail(nvml, gpus)
        assert gpus.read()[0].faults
        nvml.devices[0]["recovery_action"] = 0
        assert not gpus.read()[0].faults


def test_a_gpu_is_not_taken_for_well_right_after_a_failure(nvml, gpus):
    fail(nvml, gpus)
    nvml.devices[0]["recovery_action"] = 0
    assert [fault.message for fault in gpus.read()[0].faults] == ["XID 94"]


@pytest.mark.parametrize(
    ("events", "came"),
    [
        pytest.param([], WaitOutcome.NOTHING, id="nothing"),
        pytest.param([GPU_IS_LOST], WaitOutcome.UNKNOWN, id="lost"),
        pytest.param([pynvml.UNKNOWN], WaitOutcome.UNKNOWN, id="unknown"),
    ],
)
def test_waiting_ends(nvml, gpus, events, came):
    gpus.read()
    nvml.events = events
    assert gpus._events.wait(1) is came


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda nvml: nvml.events.append(event(nvml.devices[0])), id="an-event"),
        pytest.param(lambda nvml: nvml.devices.__setitem__(0, GPU_IS_LOST), id="a-loss-without-one"),
        pytest.param(lambda nvml: nvml.devices.append(device(2)), id="another-gpu"),
    ],
)
async def test_changes_are_told(nvml, gpus, happens):
    before = gpus.read()
    changes = gpus.changes(gpus.read())
    assert not nvml.events
    told = asyncio.ensure_future(anext(changes))
    assert await asyncio.to_thread(nvml.asked.wait, 10)
    happens(nvml)
    await asyncio.wait_for(told, 10)
    assert gpus.read() != before


async def test_gpus_without_events_are_looked_at(nvml, tmp_path):
    nvml.fails["nvmlEventSetCreate"] = NOT_SUPPORTED
    gpus = inventory(nvml, tmp_path)
    assert [each.monitored for each in gpus.read()] == [False, False]
    told = asyncio.ensure_future(anext(gpus.changes(gpus.read())))
    await asyncio.sleep(0)
    nvml.devices.append(device(2, H100))
    await asyncio.wait_for(told, 10)


def test_a_binding_that_cannot_be_loaded_is_told(tmp_path):
    with pytest.raises(NvmlUnavailableError, match="NVML cannot be loaded"):
        load_nvml(tmp_path / "libnvidia-ml.so.1")


def test_the_binding_has_what_is_asked_of_it():
    real = load_nvml()
    asked = set(FIELDS) | ESSENTIAL | {name for name in vars(Nvml) if name.startswith("nvml")}
    assert {name for name in asked if not hasattr(real, name)} == set()
    codes = (real.NVML_ERROR_TIMEOUT, real.NVML_ERROR_GPU_IS_LOST, real.NVML_INIT_FLAG_NO_GPUS)
    assert codes == (pynvml.TIMEOUT, GPU_IS_LOST, 1)
    assert (real.nvmlEventTypeXidCriticalError, real.nvmlEventTypeDoubleBitEccError) == (XID, DOUBLE_BIT)
    assert issubclass(real.NVMLError, Exception)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("00010000:01:1F.7", "10000:01:1f.7"),
        ("", ""),
        ("../../etc", ""),
    ],
)
def test_addresses_are_as_in_sysfs(text, found):
    assert normalize_pci_address(text) == found
