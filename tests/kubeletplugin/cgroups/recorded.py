"""Machines with pods, as files: what the agent reads of cgroups v1 and v2, under cgroupfs, systemd, CRI-O and kind.

A recorded machine is a folder that looks like ``/sys/fs/cgroup``. The names are those of real machines; the amounts are
set by `PodUse`, so that a test knows what is to be read.
"""

from dataclasses import dataclass
from pathlib import Path

WEB, JOB, MIRROR = (
    "7f7f1f0e-31b8-4d3b-9c1d-0f5a7a5f3a01",
    "2a9c1d7e-9a5a-4b7c-8a53-61b6a0c7d902",
    "0d3f9a0c-1c2b-4a6e-b1d5-5a4e1e7b9c03",
)
HASH = "8a4b6c1d2e3f405162738495a6b7c8d9"
"""The uid of a static pod in its cgroup's name: the hash of its manifest; `MIRROR` is the uid of its mirror pod."""


@dataclass(frozen=True)
class PodUse:
    cpu_nanos: int = 1_000_000_000
    usage_bytes: int = 107_950_080
    inactive_bytes: int = 83_886_080
    pressure_micros: int | None = None


def _escaped(uid):
    return uid.replace("-", "_")


def cgroupfs(qos, uid):
    return f"kubepods/{qos}/pod{uid}" if qos else f"kubepods/pod{uid}"


def systemd(qos, uid, *, parent="kubepods", above=""):
    level = f"{parent}-{qos}" if qos else parent
    middle = f"{above}{parent}.slice" + (f"/{level}.slice" if qos else "")
    return f"{middle}/{level}-pod{_escaped(uid)}.slice"


LAYOUTS = {
    "cgroupfs": (cgroupfs, "0123abcd"),
    "systemd-containerd": (systemd, "cri-containerd-0123abcd.scope"),
    "systemd-crio": (systemd, "crio-0123abcd.scope"),
    "kind": (lambda qos, uid: f"kubelet/{cgroupfs(qos, uid)}", "0123abcd"),
    "kind-systemd": (
        lambda qos, uid: systemd(qos, uid, parent="kubelet-kubepods", above="kubelet.slice/"),
        "cri-containerd-0123abcd.scope",
    ),
}
"""How a pod's path is made, and the name of a container's cgroup, by the kind of machine."""


def v2(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (root / "cgroup.procs").write_text("")
    return root


def v1(root: Path, *, shared=False) -> Path:
    for name in ("cpu,cpuacct", "memory", "cpuset") if shared else ("cpu", "cpuacct", "memory", "cpuset"):
        (root / name).mkdir(parents=True)
        (root / name / "cgroup.procs").write_text("")
    return root


def _groups(root: Path):
    """Return the roots of the hierarchies, with the controllers that each has."""
    if (root / "cgroup.controllers").exists():
        return {root: "v2"}
    return {folder: folder.name for folder in root.iterdir() if (folder / "cgroup.procs").exists()}


def add_pod(root: Path, path: str, *, container: str = "", use: PodUse = PodUse()) -> None:
    """Add a pod's cgroup to every hierarchy, with the cgroup of a container in it."""
    for top, controllers in _groups(root).items():
        folder = top / path
        (folder / container).mkdir(parents=True, exist_ok=True)
        for parent in (folder, *folder.relative_to(top).parents):
            (top / parent / "cgroup.procs").write_text("")
        write_use(folder, controllers, use)


def write_use(folder: Path, controllers: str, use: PodUse) -> None:
    if controllers == "v2":
        (folder / "cpu.stat").write_text(f"usage_usec {use.cpu_nanos // 1000}\nuser_usec 1\nsystem_usec 1\n")
        (folder / "memory.current").write_text(f"{use.usage_bytes}\n")
        (folder / "memory.stat").write_text(f"anon 1\ninactive_anon 8\ninactive_file {use.inactive_bytes}\n")
        if use.pressure_micros is not None:
            line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={use.pressure_micros}"
            (folder / "cpu.pressure").write_text(f"some {line}\nfull {line}\n")
    if "cpuacct" in controllers:
        (folder / "cpuacct.usage").write_text(f"{use.cpu_nanos}\n")
    if controllers == "memory":
        (folder / "memory.usage_in_bytes").write_text(f"{use.usage_bytes}\n")
        stat = f"inactive_file 1\ntotal_cache 5\ntotal_inactive_file {use.inactive_bytes}\n"
        (folder / "memory.stat").write_text(stat)


def set_use(root: Path, path: str, use: PodUse) -> None:
    """Let a pod, or all pods, have used this much."""
    for top, controllers in _groups(root).items():
        write_use(top / path, controllers, use)


def write_proc(root: Path, *, busy_ticks: int = 0, used_kib: int = 4 * 2**20) -> Path:
    """Write the files of a node that has used so much."""
    root.mkdir(exist_ok=True)
    (root / "stat").write_text(f"cpu  {busy_ticks} 0 0 500 0 0 0 0 0 0\ncpu0 {busy_ticks} 0 0 500 0 0 0 0 0 0\n")
    total = 16 * 2**20
    (root / "meminfo").write_text(f"MemTotal: {total} kB\nMemFree: 1 kB\nMemAvailable: {total - used_kib} kB\n")
    return root
