"""The options of colocation on a node, which load nothing of colocation itself."""

from pathlib import Path

from dra.model.meta import Struct
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT
from kubeletplugin.colocation.resctrl.resctrl_files import RESCTRL_ROOT


class ColocationOptions(Struct, frozen=True, kw_only=True):
    """The options of colocation on a node; the roots are those of a recorded machine in tests."""

    cgroup_root: Path = CGROUP_ROOT
    proc: Path = Path("/proc")
    kubepods: str = ""
    """The kubelet's cgroup of all pods; empty: found by search."""

    resctrl: Path = RESCTRL_ROOT
    marks: Path = Path("/var/run/cdi")
    """A directory that is empty after a reboot, as cgroups are: that of CDI specs."""
