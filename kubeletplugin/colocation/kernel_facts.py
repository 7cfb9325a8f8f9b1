"""Reads which features of colocation the node's kernel has; seldom, since they change with a reboot or a mount."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from dra.engine.colocation.kernel_features import FeatureName, KernelFacts, kernel_features
from dra.engine.instants import Instant
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.pod_cgroups import Controller, PodHierarchies
from kubeletplugin.colocation.resctrl.resctrl_files import ResctrlFiles

INTERVAL: Final = 300.0
"""Seconds after which the facts are read from the kernel again."""

FILES: Final[Mapping[CgroupVersion, Mapping[FeatureName, tuple[Controller, str]]]] = {
    CgroupVersion.V1: {
        FeatureName.CPU_QUOTA: (Controller.CPU, "cpu.cfs_quota_us"),
        FeatureName.CPU_BURST: (Controller.CPU, "cpu.cfs_burst_us"),
        FeatureName.CPUSET: (Controller.CPUSET, "cpuset.cpus"),
    },
    CgroupVersion.V2: {
        FeatureName.CPU_QUOTA: (Controller.CPU, "cpu.max"),
        FeatureName.CPU_BURST: (Controller.CPU, "cpu.max.burst"),
        FeatureName.CPUSET: (Controller.CPUSET, "cpuset.cpus"),
        FeatureName.CPU_PRESSURE: (Controller.CPU, "cpu.pressure"),
    },
}
"""The file of each feature in the cgroup of all pods; in v1, pods have no pressure, whatever ``/proc`` says."""

_log: Final = logging.getLogger(__name__)


class KernelFeatureReader:
    """Reads the features of the node's kernel once in a while."""

    def __init__(self, resctrl: ResctrlFiles) -> None:
        self._resctrl = resctrl
        self._due = float("-inf")
        self.reported: list[dict[str, Any]] = []
        """The features as the NodeMetric has them; empty before the first look."""

    def look(self, hierarchies: PodHierarchies | None, *, now: Instant) -> None:
        """Look at the kernel if it is time; a failure is logged, and what was seen before stays."""
        if hierarchies is None or now < self._due:
            return
        self._due = now + INTERVAL
        try:
            features = kernel_features(read_kernel_facts(hierarchies, self._resctrl))
        except OSError as error:
            _log.warning("node: features of the kernel are not read: %s", error)
            return
        self.reported = [{"name": feature.name, "usable": feature.usable, "text": feature.text} for feature in features]


def read_kernel_facts(hierarchies: PodHierarchies, resctrl: ResctrlFiles) -> KernelFacts:
    """Return what the kernel has, by the files in the cgroup of all pods; raises OSError."""
    present = {
        name: file
        for name, (controller, file) in FILES[hierarchies.version].items()
        if (folder := hierarchies.folder(controller)) is not None and (folder / file).exists()
    }
    return KernelFacts(files=present, cgroups=f"v{hierarchies.version.value}", resctrl=resctrl.read_tree())
