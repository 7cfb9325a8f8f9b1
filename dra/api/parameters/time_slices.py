"""The time slices of a GPU, as `dra.api.parameters.gpu.GpuConfig` names them."""

from enum import StrEnum


class TimeSliceInterval(StrEnum):
    """The time for which one process has the GPU to itself."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"
