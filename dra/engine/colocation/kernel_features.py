"""Features of a node's kernel on which parts of colocation depend, as its NodeMetric reports them.

No part fails for lack of one: a node without a feature goes without what needs it. So that people need not find this
out on each node, the agent says so in ``status.features`` of its NodeMetric, a field of dra-reserve, and
``kubectl dra preflight`` sums the nodes up. A NodeMetric by Koordinator's CRD loses the field.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from dra.engine.resctrl.support import resctrl_support
from dra.engine.resctrl.tree import ResctrlTree, unavailable_reason
from dra.model.meta import Struct
from dra.model.node_metrics import KernelFeature

TEXT_MAX: Final = 300
"""Characters of a text at most."""


class FeatureName(StrEnum):
    """A feature, in the order in which features are listed."""

    CPU_QUOTA = "cpuQuota"
    CPU_BURST = "cpuBurst"
    CPUSET = "cpuset"
    CPU_PRESSURE = "cpuPressure"
    RESCTRL = "resctrl"


class KernelFacts(Struct, frozen=True):
    """The facts that were read of a node's kernel."""

    files: Mapping[FeatureName, str]
    """The file in the pods' cgroups that a feature has in this version of cgroups, where the kernel has the file."""

    cgroups: str
    """The version of cgroups: v1 or v2."""

    resctrl: ResctrlTree


_MISSING: Final = {
    FeatureName.CPU_QUOTA: "batch pods cannot be held back by a quota",
    FeatureName.CPU_BURST: "containers have no burst",
    FeatureName.CPUSET: "batch pods cannot be held back by cpusets",
    FeatureName.CPU_PRESSURE: "the pressure of pods on CPUs is not reported",
}


def kernel_features(facts: KernelFacts) -> tuple[KernelFeature, ...]:
    """Return all features with what the kernel has of them."""
    return (*(_file_feature(name, facts) for name in _MISSING), _resctrl_feature(facts.resctrl))


def _file_feature(name: FeatureName, facts: KernelFacts) -> KernelFeature:
    file = facts.files.get(name)
    text = f"cgroup {facts.cgroups}: {file or f'no file for it, so {_MISSING[name]}'}"
    return KernelFeature(name=name.value, usable=file is not None, text=text)


def _resctrl_feature(tree: ResctrlTree) -> KernelFeature:
    return KernelFeature(
        name=FeatureName.RESCTRL.value, usable=not unavailable_reason(tree), text=resctrl_support(tree)[:TEXT_MAX]
    )
