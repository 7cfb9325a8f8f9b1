"""Detects whether the kubelet's CPU manager allocates CPUs itself, and reads which CPUs it has allocated.

With ``cpuManagerPolicy: static`` the kubelet writes the cpusets of all containers, and repeats that every ten seconds.
Two writers of one cpuset undo each other's writes forever, and a container would run on CPUs that belong to another
one. So this driver yields: it publishes, prepares and writes nothing until the policy is ``none`` again. The kubelet's
state file contains the policy, and exists from the kubelet's first start on.

In mode *node* the driver only counts CPUs beside a kubelet with that policy: it publishes what the kubelet has left,
and the kubelet chooses the CPUs and writes the cpusets of pods that request whole CPUs.

The kubelet replaces the file when its content changes. A plugin that has only the file mounted (its directory has the
volumes of all pods) then sees an unlinked file with outdated content. A kubelet with policy ``none`` replaces its file
only after an administrator has removed the file, and no kubelet starts with another policy before that. So no CPU is
published or allocated until a new pod of the plugin sees the new file. Claims with CPUs keep them meanwhile if the
policy was ``none``: draining the node is part of changing the policy, so where claims have CPUs, the policy has most
likely not changed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dra.engine.cpus.cpusets import CpuSet, parse
from dra.model.meta import Struct, Uid

STATE_FILE: Final = "cpu_manager_state"

STATIC_POLICY: Final = "static"


class CpuManagerConflict(Struct, frozen=True):
    """A conflict with the kubelet's CPU manager, which keeps the driver from allocating CPUs."""

    why: str
    written: bool = True
    """Whether to assume that the kubelet writes cpusets; if not, the CPUs of claims stay enforced."""
    allocations: "KubeletCpus | None" = None
    """The kubelet's allocations; None if they are unknown, or the policy is another one than static."""


class KubeletCpus(Struct, frozen=True):
    """The CPUs of a node as a kubelet with the policy static has divided them."""

    shared: CpuSet
    """CPUs that no container has exclusively; the kubelet's reserved CPUs are among them."""
    pods: Mapping[Uid, CpuSet]
    """Pod → the exclusive CPUs of its containers."""


class KubeletCpuManager:
    """The kubelet's CPU manager, as its state file shows it."""

    def __init__(self, kubelet: Path, *, counts_beside_static: bool = False) -> None:
        """Remember the state file below the kubelet's root directory; nothing is read yet.

        `counts_beside_static` says whether the driver works beside the policy static (mode *node*).
        """
        self._file = kubelet / STATE_FILE
        self._counts_beside_static = counts_beside_static
        self._seen: tuple[int, int, int] | None = None
        self._conflict: CpuManagerConflict | None = None

    def active(self) -> CpuManagerConflict | None:
        """Return the conflict that keeps this driver from allocating CPUs; None if there is none."""
        try:
            state = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None  # no kubelet with a CPU manager has started here
        seen = (state.st_ino, state.st_mtime_ns, state.st_size)
        if seen != self._seen:
            self._conflict = self._read()
            self._seen = seen
        if state.st_nlink == 0 and self._counts_beside_static and self._conflict and self._conflict.allocations:
            return CpuManagerConflict(
                why=f"the kubelet replaces {self._file} at each allocation (policy {STATIC_POLICY}), and the new file "
                "cannot be read here; mount the folder of the file, as component kubelet-plugin-static does, and the "
                "chart with kubeletPlugin.cpu.besideStatic",
            )
        if state.st_nlink == 0:
            return CpuManagerConflict(
                why=f"{self._file} has been removed or replaced, and its new content cannot be read here: the kubelet "
                "may allocate CPUs now; delete the plugin's pod on this node, so that a new pod reads the file",
                written=self._conflict is not None,
            )
        return self._conflict

    def _read(self) -> CpuManagerConflict | None:
        try:
            content: Any = json.loads(self._file.read_bytes())
            policy = content["policyName"]
            pods = len((content.get("entries") or {}).keys() | (content.get("podEntries") or {}).keys())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return CpuManagerConflict(why=f"{self._file} cannot be parsed ({error!r}): the kubelet may allocate CPUs")
        if policy == "none" and not pods:
            return None
        given = f", {pods} pods have CPUs" if pods else ""
        return CpuManagerConflict(
            why=f"the kubelet allocates CPUs (policy {policy} in {self._file}{given}), and two writers of one cpuset "
            "undo each other's writes; set cpuManagerPolicy: none, drain the node, "
            f"remove {self._file}, restart the kubelet",
            allocations=_parse_allocations(content) if policy == STATIC_POLICY else None,
        )


def _parse_allocations(content: Mapping[str, Any]) -> KubeletCpus | None:
    """Return the allocations of a state file with the policy static; None if they cannot be read."""
    try:
        pods = {
            Uid(uid): CpuSet(cpu for cpus in containers.values() for cpu in parse(cpus))
            for uid, containers in (content.get("entries") or {}).items()
        }
        return KubeletCpus(shared=parse(content["defaultCpuSet"]), pods=pods)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
