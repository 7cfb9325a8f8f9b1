"""``CpuConfig``: which of a NUMA node's CPUs a request gets, where the driver chooses (``--cpu-devices grouped``).

Words and meaning are Koordinator's (specs/koordinator.md C.2–C.4), so that what people know of its annotations holds
here, too:

* a **bind policy** is preferred (gives way when it cannot be had) or required (the claim is not prepared then), not
  both: ``FullPCPUs`` takes whole cores, ``SpreadByPCPUs`` one thread of each core;
* **exclusivity** keeps away from CPUs of claims with the same wish: from their cores or their NUMA nodes, if possible;
* the **strategy** is to fill the fullest place first, or the emptiest.

With a device for each CPU (``individual``) the scheduler chooses. Then a required policy is checked, since whoever
requires whole cores must not get half of one silently; preferences have nothing left to prefer.
"""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from dra.api.parameters.opaque import Parameters


class CpuBindPolicy(StrEnum):
    """How CPUs lie on cores."""

    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class CpuExclusivePolicy(StrEnum):
    """What claims with the same wish do not share, where there is room."""

    NONE = "None"
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


class NumaAllocateStrategy(StrEnum):
    """Which of several places that fit."""

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"


class CpuConfig(Parameters):
    """Opaque parameters for ``cpu.reserve.dra``."""

    required_bind_policy: CpuBindPolicy | None = Field(default=None, alias="requiredCPUBindPolicy")
    preferred_bind_policy: CpuBindPolicy | None = Field(default=None, alias="preferredCPUBindPolicy")
    """Neither: FullPCPUs is preferred."""

    exclusivity: CpuExclusivePolicy = Field(default=CpuExclusivePolicy.NONE, alias="preferredCPUExclusivePolicy")
    strategy: NumaAllocateStrategy = NumaAllocateStrategy.MOST_ALLOCATED

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        if self.required_bind_policy and self.preferred_bind_policy:
            raise ValueError("requiredCPUBindPolicy and preferredCPUBindPolicy exclude each other: keep one")
        return self

    @property
    def bind_policy(self) -> CpuBindPolicy:
        """The policy, required or preferred."""
        return self.required_bind_policy or self.preferred_bind_policy or CpuBindPolicy.FULL_PCPUS
