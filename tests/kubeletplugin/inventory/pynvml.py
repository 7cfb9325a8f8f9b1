"""A stand-in for NVIDIA's binding of NVML: answers as they were written down, errors where a test wants them.

The answers of `H100` and `T4` are what the documentation of NVML and of ``nvidia-smi -q`` shows for such machines; no
GPU was at hand to record from. Codes of errors and events are the library's own.
"""

from threading import Event
from types import SimpleNamespace

TIMEOUT, NOT_SUPPORTED, DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 10, 3, 9, 13, 15, 999

H100 = {
    "nvmlDeviceGetMinorNumber": 0,
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetBrand": 14,
    "nvmlDeviceGetArchitecture": 9,
    "nvmlDeviceGetCudaComputeCapability": (9, 0),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=85520809984),
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:18:00.0"),
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetSupportedEventTypes": 0x18 | 0x3,
}
T4 = H100 | {
    "nvmlDeviceGetName": b"Tesla T4",
    "nvmlDeviceGetBrand": 14,
    "nvmlDeviceGetArchitecture": 6,
    "nvmlDeviceGetCudaComputeCapability": (7, 5),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=16106127360),
    "nvmlDeviceGetMigMode": NOT_SUPPORTED,
}


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"error {value}")
        self.value = value


def device(number, model=H100, **answers):
    """A GPU by its number, with other answers than its model's; an int in place of a structure is an error's code."""
    own = {
        "nvmlDeviceGetUUID": f"GPU-{number}",
        "nvmlDeviceGetMinorNumber": number,
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId=f"00000000:{0x18 + number:02X}:00.0"),
    }
    return model | own | answers


class Nvml:
    """The module; a handle is the GPU's dictionary."""

    NVMLError = NVMLError

    def __init__(self, *devices, driver="570.86.15", cuda=12080):
        self.devices = list(devices)
        self.driver = driver
        self.cuda = cuda
        self.fails = {}
        self.events = []
        self.opened = 0
        self.registered = []
        self.asked = Event()

    def _may_fail(self, name):
        if name in self.fails:
            raise NVMLError(self.fails[name])

    def nvmlInitWithFlags(self, flags):  # noqa: N802
        self._may_fail("nvmlInitWithFlags")
        assert flags == 1
        self.opened += 1

    def nvmlShutdown(self):  # noqa: N802
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        self._may_fail("nvmlSystemGetDriverVersion")
        return self.driver

    def nvmlSystemGetCudaDriverVersion_v2(self):  # noqa: N802
        self._may_fail("nvmlSystemGetCudaDriverVersion_v2")
        return self.cuda

    def nvmlDeviceGetCount(self):  # noqa: N802
        self._may_fail("nvmlDeviceGetCount")
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        found = self.devices[index]
        if isinstance(found, int):
            raise NVMLError(found)
        return found

    def nvmlEventSetCreate(self):  # noqa: N802
        self._may_fail("nvmlEventSetCreate")
        return object()

    def nvmlEventSetFree(self, events):  # noqa: N802
        assert events is not None

    def nvmlDeviceRegisterEvents(self, handle, kinds, events):  # noqa: N802
        assert events is not None
        if isinstance(answer := handle.get("nvmlDeviceRegisterEvents"), Exception):
            raise answer
        self.registered.append((handle["nvmlDeviceGetUUID"], kinds))

    def nvmlEventSetWait_v2(self, events, milliseconds):  # noqa: N802
        assert events is not None
        assert milliseconds >= 0
        self.asked.set()
        if not self.events:
            raise NVMLError(TIMEOUT)
        event = self.events.pop(0)
        if isinstance(event, int):
            raise NVMLError(event)
        return event

    def nvmlDeviceGetFieldValues(self, handle, fields):  # noqa: N802
        assert fields == [230]
        action = handle.get("recovery_action", NOT_SUPPORTED << 8)
        if isinstance(action, NVMLError):
            raise action
        return [SimpleNamespace(nvmlReturn=action >> 8, value=SimpleNamespace(uiVal=action & 0xFF))]

    def __getattr__(self, name):
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def answer(handle):
            found = handle[name]
            if isinstance(found, NVMLError):
                raise found
            return found

        return answer
