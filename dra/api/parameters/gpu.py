"""``GpuConfig``: how the devices of ``gpu.reserve.dra`` are shared by the containers of a claim.

Every container of a claim gets the whole GPU: sharing is about how processes on it take turns. Field names are those of
NVIDIA's driver, where it has them, so that manifests can be carried over.

* ``TimeSlicing`` is what a GPU does by itself; the interval is how long one process computes before the next does.
* ``MPS`` is refused: it needs a control daemon for each claim, and no such thing is made here.
* A memory limit cannot be enforced without MPS: time-sliced processes allocate from one memory, and the driver knows no
  quota (``CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`` is read by the MPS daemon alone). What can be done is to tell the
  containers, which then can configure their framework. Since a limit that does not limit is a trap, whoever writes one
  has to say that advice is enough: ``enforcement: Advisory``.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from dra.api.parameters.opaque import Parameters

Quantity = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value),
    Field(pattern=r"^0*[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$", max_length=64),
]
"""A positive number of bytes, as Kubernetes writes it."""


class TimeSliceInterval(StrEnum):
    """How long a process has the GPU for itself."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


def _refuse_mps(value: object) -> object:
    if value == "MPS":
        raise ValueError(
            "MPS is not done by this driver, it needs a control daemon for each claim; "
            "use TimeSlicing, or NVIDIA's driver for this claim"
        )
    return value


class GpuSharingStrategy(StrEnum):
    """How processes share a GPU."""

    TIME_SLICING = "TimeSlicing"


class TimeSlicingConfig(Parameters):
    """Of strategy ``TimeSlicing``."""

    interval: TimeSliceInterval = TimeSliceInterval.DEFAULT


class MemoryLimitEnforcement(StrEnum):
    """Who sees to it that a limit is kept."""

    ADVISORY = "Advisory"
    """The containers themselves, which are told (``GPU_DEVICE_<minor>_MEMORY_LIMIT``)."""


def _require_advisory(value: object) -> object:
    if value != MemoryLimitEnforcement.ADVISORY:
        raise ValueError(
            "nothing enforces a memory limit without MPS; write Advisory if telling the containers is enough, "
            "or take the limit away"
        )
    return value


class MemoryLimit(Parameters):
    """How much memory of each GPU the containers of a claim are to use."""

    limit: Quantity
    enforcement: Annotated[
        MemoryLimitEnforcement | None, BeforeValidator(_require_advisory), Field(validate_default=True)
    ] = None


class GpuSharing(Parameters):
    """How the processes on a GPU share it."""

    strategy: Annotated[GpuSharingStrategy, BeforeValidator(_refuse_mps)] = GpuSharingStrategy.TIME_SLICING
    time_slicing_config: TimeSlicingConfig = TimeSlicingConfig()
    memory: MemoryLimit | None = None


class GpuConfig(Parameters):
    """Opaque parameters for ``gpu.reserve.dra``."""

    sharing: GpuSharing = GpuSharing()
