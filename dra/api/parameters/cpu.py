"""``CpuConfig``: the choice of CPUs, where the driver chooses (``--cpu-devices grouped`` or ``node``), and their use.

Words and meaning are those of Koordinator's annotations, so that its users find what they know:

* a **bind policy** is preferred (gives way when it cannot be satisfied) or required (otherwise the claim is not
  prepared), not both: ``FullPCPUs`` takes whole cores, ``SpreadByPCPUs`` one thread of each core;
* the **exclusive policy** avoids CPUs of claims with the same policy: their cores or their NUMA nodes, if possible;
* the **strategy** fills the fullest place first, or the emptiest; by default the node's, with ``--cpu-devices node``;
* with **preferIsolatedCPUs**, CPUs that the kernel isolates (``isolcpus``) come first, before locality;
* with **sharedWith** ``BestEffort``, containers of pods of that QoS class may run on the claim's CPUs, too.

With a device for each CPU (``individual``) the scheduler chooses. The driver then only checks a required policy, since
a claim that requires whole cores must not silently get half of one; preferences have no effect.
"""

from typing import Self

from pydantic import Field, model_validator

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy, CpuSharing, NumaAllocateStrategy
from dra.api.parameters.opaque import Parameters


class CpuConfig(Parameters):
    """Opaque parameters for devices of ``cpu.reserve.dra``."""

    required_bind_policy: CpuBindPolicy | None = Field(default=None, alias="requiredCPUBindPolicy")
    preferred_bind_policy: CpuBindPolicy | None = Field(default=None, alias="preferredCPUBindPolicy")
    """Without any policy, FullPCPUs is preferred."""

    exclusivity: CpuExclusivePolicy = Field(default=CpuExclusivePolicy.NONE, alias="preferredCPUExclusivePolicy")
    strategy: NumaAllocateStrategy = NumaAllocateStrategy.MOST_ALLOCATED

    shared_with: CpuSharing = CpuSharing.NONE

    prefers_isolated: bool = Field(default=False, alias="preferIsolatedCPUs")
    """Whether CPUs that the kernel isolates (``isolcpus``) come first. Threads stay on the isolated CPU where they are
    placed, so a program must bind its threads itself."""

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        if self.required_bind_policy and self.preferred_bind_policy:
            raise ValueError("set requiredCPUBindPolicy or preferredCPUBindPolicy, not both")
        return self

    @property
    def given_strategy(self) -> NumaAllocateStrategy | None:
        """The strategy if the parameters set one; otherwise None, and the node's label may decide."""
        return self.strategy if "strategy" in self.model_fields_set else None

    @property
    def bind_policy(self) -> CpuBindPolicy:
        """The bind policy, required or preferred."""
        return self.required_bind_policy or self.preferred_bind_policy or CpuBindPolicy.FULL_PCPUS
