"""Cgroup trees to try things on: a model of the kernel's rules, and folders that look like cgroups."""

import tempfile
from collections.abc import Mapping
from pathlib import Path as FilePath

from dra.engine.cpus.cpusets import CpuSet, parse
from kubeletplugin.cgroups.cpuset_plan import Cgroup, CgroupVersion


def path(text):
    return tuple(filter(None, text.split("/")))


def tree(cgroups: Mapping[str, str]):
    return tuple(Cgroup(path=path(name), cpus=parse(cpus)) for name, cpus in cgroups.items())


def shown(found):
    return {"/".join(at): str(cpus) for at, cpus in found.items()}


class V1Kernel:
    """What cgroup v1 makes of writes, one at a time."""

    def __init__(self, cgroups):
        self.cpus = {each.path: each.cpus for each in cgroups}

    def write(self, at, cpus: CpuSet):
        assert cpus, f"{at}: ENOSPC, tasks would have no CPU"
        if at[:-1] in self.cpus:
            assert cpus <= self.cpus[at[:-1]], f"{at}: EACCES, {cpus} is more than its parent has"
        for other, held in self.cpus.items():
            if other[:-1] == at and other:
                assert held <= cpus, f"{at}: EBUSY, {cpus} is less than {other} has"
        self.cpus[at] = cpus


def folders(root: FilePath, cgroups: Mapping[str, str], *, version: CgroupVersion, cpus: str = "0-7") -> FilePath:
    """Make folders that look like cgroups; return the mount."""
    top = root if version is CgroupVersion.V2 else root / "cpuset"
    top.mkdir(parents=True, exist_ok=True)
    if version is CgroupVersion.V2:
        (top / "cgroup.controllers").write_text("cpu cpuset memory\n")
    for name, own in {"": cpus, **cgroups}.items():
        make(top / name, own, version=version, effective=own or cpus)
    return root


def make(folder: FilePath, own: str, *, version: CgroupVersion, effective: str) -> None:
    """Make a folder that looks like a cgroup. As a cgroup, a new one has its files from the beginning."""
    name = "cpuset.cpus.effective" if version is CgroupVersion.V2 else "cpuset.effective_cpus"
    whole = folder if folder.is_dir() else FilePath(tempfile.mkdtemp(dir=_outside(folder)))
    (whole / "cpuset.cpus").write_text(f"{own}\n")
    (whole / name).write_text(f"{effective}\n")
    if whole != folder:
        whole.chmod(0o755)
        folder.parent.mkdir(parents=True, exist_ok=True)
        whole.rename(folder)


def _outside(folder: FilePath) -> FilePath:
    """Return a folder of the same file system in which nobody looks for cgroups."""
    return next(at.parent for at in folder.parents if at.exists() and not (at / "cpuset.cpus").exists())
