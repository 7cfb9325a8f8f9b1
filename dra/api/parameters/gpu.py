"""``GpuConfig``: the way in which the containers of a claim share devices of ``gpu.reserve.dra``.

Every container of a claim gets the whole GPU: sharing is about how processes alternate on a GPU. Field names are those
of NVIDIA's driver, where it has them, so that manifests can be carried over.

* ``TimeSlicing`` is what a GPU does by itself; the interval is how long one process computes before the next one does.
* ``MPS`` is rejected: it needs a control daemon for each claim, which this driver does not create.
* A memory limit cannot be enforced without MPS: time-sliced processes allocate from one memory, and the NVIDIA driver
  has no quota (only the MPS daemon reads ``CUDA_MPS_PINNED_DEVICE_MEM_LIMIT``). The driver can only pass the limit to
  the containers, which then can configure their framework. Since a limit without effect is a trap, the user has to
  state that advice is enough: ``enforcement: Advisory``.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from dra.api.parameters.opaque import Parameters
from dra.api.parameters.time_slices import TimeSliceInterval

Quantity = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value),
    Field(pattern=r"^0*[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$", max_length=64),
]
"""A positive number of bytes, as a Kubernetes quantity."""


def _refuse_mps(value: object) -> object:
    if value == "MPS":
        raise ValueError(
            "this driver does not support MPS, which needs a control daemon for each claim; "
            "use TimeSlicing, or NVIDIA's driver for this claim"
        )
    return value


class GpuSharingStrategy(StrEnum):
    """The way in which processes share a GPU."""

    TIME_SLICING = "TimeSlicing"


class TimeSlicingConfig(Parameters):
    """The parameters of strategy ``TimeSlicing``."""

    interval: TimeSliceInterval = TimeSliceInterval.DEFAULT


class MemoryLimitEnforcement(StrEnum):
    """The component that enforces a memory limit."""

    ADVISORY = "Advisory"
    """The containers themselves, which get the limit in ``GPU_DEVICE_<minor>_MEMORY_LIMIT``."""


def _require_advisory(value: object) -> object:
    if value != MemoryLimitEnforcement.ADVISORY:
        raise ValueError(
            "nothing enforces a memory limit without MPS; write Advisory to pass the limit to the containers only, "
            "or remove the limit"
        )
    return value


class MemoryLimit(Parameters):
    """The memory of each GPU that the containers of a claim may use."""

    limit: Quantity
    enforcement: Annotated[
        MemoryLimitEnforcement | None, BeforeValidator(_require_advisory), Field(validate_default=True)
    ] = None


class GpuSharing(Parameters):
    """The sharing of a GPU by processes: strategy, time slices and memory limit."""

    strategy: Annotated[GpuSharingStrategy, BeforeValidator(_refuse_mps)] = GpuSharingStrategy.TIME_SLICING
    time_slicing_config: TimeSlicingConfig = TimeSlicingConfig()
    memory: MemoryLimit | None = None


class GpuConfig(Parameters):
    """Opaque parameters for devices of ``gpu.reserve.dra``."""

    sharing: GpuSharing = GpuSharing()
