"""Finds the cgroups of the node's pods again and again, and tells why running pods have none.

The kubelet may start after the plugin, or start anew with another cgroup driver: the tree is searched until it is
found, and again once it is gone or has no pod of the node: a kubelet leaves the cgroups behind that it made before.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dra.model.meta import Struct, Uid
from dra.model.node_pods import NodePod
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT, CgroupsNotFoundError
from kubeletplugin.cgroups.pod_cgroups import PodCgroup, PodHierarchies, find_pod_hierarchies, named_uids

RUNNING: Final = "Running"
_NAMED_MAX: Final = 3

_log: Final = logging.getLogger(__name__)


class PodCgroupView(Struct, frozen=True):
    """The cgroups of pods at one moment."""

    hierarchies: PodHierarchies | None = None
    """None while there are none."""

    pods: Mapping[Uid, PodCgroup] = {}
    """By the uid of the pod's object; pods without a cgroup have no entry."""

    others: Mapping[str, CgroupPath] = {}
    """Cgroups of pods that the API server does not know, by the uid in their names."""


class PodCgroupFinder:
    """Finds the cgroups of pods below one root."""

    def __init__(self, root: Path = CGROUP_ROOT, *, kubepods: str = "") -> None:
        self._root = root
        self._kubepods = kubepods
        self._hierarchies: PodHierarchies | None = None
        self._present: dict[str, PodCgroup] = {}
        self._logged_text = ""
        self.failure = ""
        """Why there are no cgroups of pods; empty if there are."""

    def find(self, pods: Sequence[NodePod]) -> PodCgroupView:
        """Return the cgroups of these pods as they are now."""
        named = named_uids(pods)
        try:
            hierarchies = self._find_hierarchies(named)
            self._present = present = hierarchies.read_pods(self._present)
        except (CgroupsNotFoundError, OSError) as error:
            self._hierarchies, self._present, self.failure = None, {}, str(error)
            return PodCgroupView()
        self.failure = ""
        return PodCgroupView(
            hierarchies=hierarchies,
            pods={named[uid].metadata.uid: cgroup for uid, cgroup in present.items() if uid in named},
            others={uid: cgroup.path for uid, cgroup in present.items() if uid not in named and cgroup.has_containers},
        )

    def count_unknown(self, pods: Sequence[NodePod], view: PodCgroupView) -> int:
        """Return the number of running pods without cgroups of containers in their own; log once why."""
        unknown = [
            pod for pod in pods if pod.status.phase == RUNNING and not _has_containers(view.pods.get(pod.metadata.uid))
        ]
        text = self._explain(unknown, view.hierarchies) if unknown and view.hierarchies is not None else ""
        if text and not self._logged_text:
            _log.warning("%s", text)
        self._logged_text = text
        return len(unknown)

    def _find_hierarchies(self, named: Mapping[str, NodePod]) -> PodHierarchies:
        known = self._hierarchies if self._hierarchies is not None and self._hierarchies.exists() else None
        if known is None or (named and not named.keys() & self._present.keys()):
            try:
                known = find_pod_hierarchies(self._root, pods=self._kubepods, uids=named.keys())
            except CgroupsNotFoundError:
                if known is None:
                    raise
        self._hierarchies = known
        return known

    @staticmethod
    def _explain(pods: Sequence[NodePod], hierarchies: PodHierarchies) -> str:
        names = ", ".join("/".join(pod.metadata.key) for pod in pods[:_NAMED_MAX])
        more = f" and {len(pods) - _NAMED_MAX} more" if len(pods) > _NAMED_MAX else ""
        strays = hierarchies.read_stray_containers()
        cause = (
            f"containers have cgroups outside of their pods', such as {strays[0]}: the container runtime uses another "
            "cgroup driver than the kubelet; give both the same one"
            if strays
            else f"no cgroup below {'/'.join(hierarchies.kubepods)} is named after their uids and has containers"
        )
        return f"pod {names}{more}: what they use is not sampled, and counts as the system's: {cause}"


def _has_containers(cgroup: PodCgroup | None) -> bool:
    return cgroup is not None and cgroup.has_containers
