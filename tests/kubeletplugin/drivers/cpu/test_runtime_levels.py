"""Levels that runtimes put between a pod's cgroup and a process, as folders: the hook, then the reconciliation.

The paths are those that the runtimes make: crun's from its documentation and source (``run.oci.systemd.subgroup``,
``run.oci.delegate-cgroup``), the others as seen in /proc/PID/cgroup. `test_real_cgroups` does the like on the kernel's.
"""

import json
import subprocess
from typing import NamedTuple

import pytest

from dra.engine.cpus.cpusets import parse
from kubeletplugin.cgroups.cgroup_names import CgroupLevel, cgroup_level
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import find_hierarchy
from kubeletplugin.drivers.cpu.cpuset_reconciler import reconcile
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand, CpusetStore
from kubeletplugin.drivers.cpu.device_modes import UNTHROTTLED
from tests.kubeletplugin.cgroups.trees import folders, make

V1, V2 = CgroupVersion.V1, CgroupVersion.V2


def number(name):
    """Return a container's id, as the CRI runtimes make them."""
    return (name * 64)[:64]


class Tree(NamedTuple):
    """The cgroups of a runtime's container: {n} is the number of its pod, {id} its own."""

    version: CgroupVersion
    container: str
    below: str = ""
    """The path from the container's cgroup to the process's."""
    pods: str = "kubepods"
    proc: str = "0::{path}\n"


SYSTEMD = "kubepods-burstable.slice/kubepods-burstable-pod{n}_a.slice"
IN_V1 = "4:cpuset:{path}\n3:cpu,cpuacct:{path}\n1:name=systemd:{path}\n0::/\n"

TREES = {
    "runc-cgroupfs-v1": Tree(V1, "burstable/pod{n}-a/{id}", proc=IN_V1),
    "runc-cgroupfs-v2": Tree(V2, "pod{n}-a/{id}"),
    "runc-systemd-v2": Tree(V2, f"{SYSTEMD}/cri-containerd-{{id}}.scope", pods="kubepods.slice"),
    "crun-systemd-v2": Tree(V2, f"{SYSTEMD}/crio-{{id}}.scope", "/container", pods="kubepods.slice"),
    "crun-systemd-v1": Tree(V1, f"{SYSTEMD}/crio-{{id}}.scope", "/container", pods="kubepods.slice", proc=IN_V1),
    "crun-systemd-hybrid": Tree(
        V1,
        f"{SYSTEMD}/crio-{{id}}.scope",
        "/container",
        pods="kubepods.slice",
        proc="5:cpuset:{path}\n1:name=systemd:{path}\n0::{path}\n",
    ),
    "crun-delegated-v2": Tree(V2, f"{SYSTEMD}/crio-{{id}}.scope", "/container/payload", pods="kubepods.slice"),
    "crun-cri-dockerd": Tree(V2, f"{SYSTEMD}/docker-{{id}}.scope", "/container", pods="kubepods.slice"),
    "a-level-cgroupfs-v1": Tree(V1, "besteffort/pod{n}-a/{id}", "/container", proc=IN_V1),
    "a-level-cgroupfs-v2": Tree(V2, "pod{n}-a/{id}", "/init.scope"),
    "kind": Tree(
        V2,
        "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{n}_a.slice/cri-containerd-{id}.scope",
        "/container",
        pods="kubelet.slice/kubelet-kubepods.slice",
    ),
    "a-kubelet-in-a-pod": Tree(
        V1,
        "burstable/pod{n}-a/{id}",
        "/container",
        pods=f"kubepods/burstable/podouter/{number('0')}/kubepods",
        proc=IN_V1,
    ),
}
ALL = pytest.mark.parametrize("tree", [pytest.param(tree, id=name) for name, tree in TREES.items()])


class Node:
    """A machine of eight CPUs whose cgroups are folders, with containers of one runtime."""

    def __init__(self, folder, tree):
        self.tree = tree
        self.root = folders(folder / "cgroup", {tree.pods: "0-7"}, version=tree.version)
        self.top = self.root / "cpuset" if tree.version is V1 else self.root
        self.proc = folder / "proc"
        self.store = CpusetStore(folder / "driver")
        self.store.install()
        self.demand = CpusetDemand(requests={"uid-a.cpus": parse("2-3"), "uid-b.cpus": parse("4-5")})
        self.store.put_demand(self.demand)

    def born(self, name, n, *, cpus="0-7", effective="0-7"):
        """Make a container's cgroups, as the runtime does."""
        path = f"{self.tree.pods}/{self.container(name, n)}{self.tree.below}"
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            at = self.top.joinpath(*parts[:length])
            if not at.exists():
                made = cpus if self.tree.version is V1 else ""
                make(at, made, version=self.tree.version, effective=effective)
        make(self.top / path, cpus if self.tree.version is V1 else "", version=self.tree.version, effective=effective)
        (self.proc / str(n)).mkdir(parents=True)
        (self.proc / str(n) / "cgroup").write_text(self.tree.proc.format(path=f"/{path}"))

    def container(self, name, n):
        return self.tree.container.format(n=n, id=number(name))

    def hook(self, n, claim, cpus, *more, state):
        return subprocess.run(
            ["/bin/sh", str(self.store.hook), claim, "cpus", cpus, *more],
            input=json.dumps({"ociVersion": "1.0", **state, "pid": n, "annotations": {"id": "no", "pid": 1}}),
            env={"DRA_RESERVE_CGROUPS": str(self.root), "DRA_RESERVE_PROC": str(self.proc)},
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def starts(self, name, n, claim, cpus, *more):
        """Start a container as the runtime does; the kernel's part is that the written CPUs are in effect."""
        self.born(name, n, effective=cpus)
        result = self.hook(n, claim, cpus, *more, state={"id": number(name)})
        assert result.returncode == 0, result.stderr

    def cpus(self, name, n, below=""):
        folder = self.top / self.tree.pods / f"{self.container(name, n)}{below}"
        return (folder / "cpuset.cpus").read_text().strip()

    def reconcile(self, store=None):
        while (result := reconcile(self.hierarchy(), store or self.store)).again:
            pass
        return result

    def hierarchy(self):
        return find_hierarchy(self.root, pods=self.tree.pods)

    def records(self):
        folder = self.store.folder / "containers"
        return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def node(tmp_path, tree):
    return Node(tmp_path, tree)


@ALL
def test_each_container_has_its_own_cpus_and_others_have_the_rest_also_after_a_restart(node):
    node.starts("a", 1, "uid-a", "2-3")
    node.starts("b", 2, "uid-b", "4-5")
    node.born("c", 3)
    below = [node.tree.below[:end] for end, char in enumerate(f"{node.tree.below}/") if char == "/"]
    for _ in range(2):
        for level in below:
            assert (node.cpus("a", 1, level), node.cpus("b", 2, level)) == ("2-3", "4-5"), level
        assert node.reconcile(CpusetStore(node.store.folder)).unclear == ()
        assert node.cpus("c", 3) == "0-1,6-7"
    assert node.records() == {
        f"{node.container('a', 1).rpartition('/')[2]}/uid-a.cpus",
        f"{node.container('b', 2).rpartition('/')[2]}/uid-b.cpus",
    }


@ALL
def test_what_a_container_makes_within_its_cgroup_later_has_its_cpus(node):
    node.starts("a", 1, "uid-a", "2-3")
    node.reconcile()
    at = node.top / node.tree.pods / node.container("a", 1) / "docker" / "inner"
    for each in (at.parent, at):
        make(each, "", version=node.tree.version, effective="")
    node.reconcile()
    expected = "2-3" if node.tree.version is V1 else ""  # empty in v2: its parent's
    assert [(each / "cpuset.cpus").read_text().strip() for each in (at.parent, at)] == [expected, expected]


@ALL
def test_the_record_of_an_earlier_build_takes_nothing_from_containers_that_have_records_of_their_own(node):
    node.starts("a", 1, "uid-a", "2-3")
    name = (node.tree.below or node.container("a", 1)).rpartition("/")[2]
    folder = node.store.folder / "containers" / name
    folder.mkdir(exist_ok=True)
    (folder / "uid-a.cpus").write_text("2-3\n")
    result = node.reconcile()
    assert node.cpus("a", 1) == "2-3"
    assert bool(result.unclear) is bool(node.tree.below)


CRUN = pytest.mark.parametrize("tree", [pytest.param(TREES[name], id=name) for name in TREES if name.startswith("cru")])


@CRUN
def test_containers_that_an_earlier_build_has_mixed_up_get_nothing_and_the_way_out_is_told(node):
    for n, (name, written) in enumerate({"a": "2-3", "b": "2-5", "c": "0-7"}.items(), start=1):
        node.born(name, n, cpus=written)
    folder = node.store.folder / "containers" / node.tree.below.rpartition("/")[2]
    folder.mkdir()
    for claim in ("uid-a", "uid-b"):
        (folder / f"{claim}.cpus").write_text("2-3\n")
    (text,) = node.reconcile().unclear
    assert text.startswith("claims with uids uid-a, uid-b: a record says that their CPUs belong to the cgroup ")
    assert "and 2 more" in text
    assert text.endswith("delete the pods of the claims, so that new containers are recorded")
    for n, name in enumerate("abc", start=1):
        assert node.cpus(name, n) == "0-1,6-7"

    node.starts("d", 4, "uid-a", "2-3")  # a container that starts again
    node.reconcile()
    assert node.cpus("d", 4) == "2-3"

    node.store.put_demand(CpusetDemand(requests={"uid-c.cpus": parse("7")}))
    assert node.reconcile().unclear == ()
    assert not folder.exists()  # the claims have ended


@pytest.mark.parametrize("tree", [TREES["runc-cgroupfs-v1"]])
def test_two_containers_of_one_name_get_nothing(node):
    node.starts("a", 1, "uid-a", "2-3")
    node.born("a", 2)
    result = node.hook(2, "uid-b", "4-5", state={"id": number("a")})
    assert result.returncode == 1
    assert "two containers have a cgroup of that name, /kubepods/burstable/pod2-a/" in result.stderr
    assert node.records() == {f"{number('a')}/uid-a.cpus"}
    (text,) = node.reconcile().unclear
    assert text.startswith("claims with uids uid-a: ")
    assert node.cpus("a", 1) == node.cpus("a", 2) == "0-1,6-7"


@pytest.mark.parametrize("tree", [TREES["runc-cgroupfs-v1"]])
def test_the_record_of_a_container_that_has_ended_is_not_anothers_of_its_name(node):
    folder = node.store.folder / "containers" / number("a")
    folder.mkdir()
    (folder / "uid-b.cpus").write_text(f"4-5\n/kubepods/burstable/pod9-a/{number('a')}\n")
    node.starts("a", 1, "uid-a", "2-3")
    assert node.records() == {f"{number('a')}/uid-a.cpus"}


REFUSED = {
    "beside-pods": ("/kubepods/burstable/strange/mine", "which container it belongs to cannot be told"),
    "right-in-a-pod": ("/kubepods/pod1", "which container it belongs to cannot be told"),
    "right-in-a-class": ("/kubepods.slice/kubepods-burstable.slice", "which container it belongs to cannot be told"),
    "a-level-named-like-all-pods": (f"/kubepods/pod1/{number('a')}/kubepods", "it belongs to cannot be told"),
    "no-pods": (f"/system.slice/{number('a')}", "is not below the kubelet's kubepods"),
    "out-of-sight": (f"/../../kubepods/pod1/{number('a')}", "is outside of the visible hierarchy"),
    "anothers": (f"/kubepods/pod1/{number('b')}", f"is not the one of container {number('a')}"),
    "a-virtual-machine": ("/kubepods/pod1/kata_overhead", f"is not the one of container {number('a')}"),
    "a-level-above": (f"/kubepods/pod1/all/{number('a')}", f"is not the one of container {number('a')}"),
}


@pytest.mark.parametrize("tree", [TREES["runc-cgroupfs-v2"]])
@pytest.mark.parametrize(("path", "reason"), [pytest.param(*each, id=name) for name, each in REFUSED.items()])
def test_a_cgroup_whose_container_cannot_be_told_is_refused(node, path, reason):
    at = node.top / path.replace("/..", "").strip("/")
    make(at, "", version=V2, effective="2-3")
    (node.proc / "7").mkdir(parents=True)
    (node.proc / "7/cgroup").write_text(f"0::{path}\n")
    result = node.hook(7, "uid-a", "2-3", state={"id": number("a")})
    assert result.returncode == 1
    assert reason in result.stderr
    assert node.store.failures() == [result.stderr.strip()]
    assert node.records() == set()
    assert (at / "cpuset.cpus").read_text() == "\n"


NAMES = [
    "burstable/pod6f1d-11/c",
    "besteffort/pod0123456789abcdef0123456789abcdef/c",
    "pod6f1d-11/c",
    "kubepods-pod6f1d_11.slice/c.scope",
    "kubepods-burstable.slice/kubepods-burstable-pod6f1d_11.slice/crio-c.scope",
    "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod6_1.slice/c.scope",
    "burstable/burstable/pod1/c",
    "burstable/pod1.slice/c",
    "pod/c",
    "besteffort.slice/pod1/c",
    "kubepods-burstable-podx.slice/c/c/c",
    "kubepods-burstable.slice/kubepods-burstable-poda-b.slice/c.scope",
    "kubepods-poda.b.slice/c.scope/container",
    "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-poda+b.slice/c.scope",
    "kubepods-burstable-besteffort-pod1.slice/c.scope",
    "kubepods-a-kubepods-pod1.slice/c.scope",
    "strange/pod1/c",
    "strange",
]


@pytest.mark.parametrize("tree", [TREES["runc-cgroupfs-v2"]])
@pytest.mark.parametrize("name", NAMES)
def test_the_hook_and_the_plugin_mean_the_same_container(node, name):
    parts = tuple(name.split("/"))
    of_pods = [
        parts[: at + 1]
        for at in range(len(parts))
        if (cgroup_level(parts[:at]), cgroup_level(parts[: at + 1])) == (CgroupLevel.POD, CgroupLevel.CONTAINER)
    ]
    make(node.top / "kubepods" / name, "", version=V2, effective="2-3")
    for each in of_pods:
        make(node.top.joinpath("kubepods", *each), "", version=V2, effective="2-3")
    (node.proc / "7").mkdir(parents=True)
    (node.proc / "7/cgroup").write_text(f"0::/kubepods/{name}\n")
    result = node.hook(7, "uid-a", "2-3", state={"id": "by-hand"})
    assert node.records() == {f"{each[-1]}/uid-a.cpus" for each in of_pods}, result.stderr


@pytest.mark.parametrize("tree", [TREES["crun-delegated-v2"], TREES["crun-systemd-v1"]], ids=["v2", "v1"])
def test_the_quotas_of_all_levels_from_the_process_to_the_pod_are_lifted(node):
    node.born("a", 1, effective="2-3")
    v1 = node.tree.version is V1
    file, limit, none = ("cpu.cfs_quota_us", "200000", "-1") if v1 else ("cpu.max", "200000 100000", "max")
    top = node.root / ("cpu,cpuacct" if v1 else "")
    names = f"{node.tree.pods}/{node.container('a', 1)}{node.tree.below}".split("/")
    if v1:
        (node.proc / "1/cgroup").write_text(IN_V1.format(path=f"/{'/'.join(names)}"))
    at = [top.joinpath(*names[:length]) for length in range(1, len(names) + 1)]
    for each in at:
        each.mkdir(parents=True, exist_ok=True)
        (each / file).write_text(limit)
    assert node.hook(1, "uid-a", "2-3", UNTHROTTLED, state={"id": number("a")}).returncode == 0
    assert [(each / file).read_text() for each in at] == [limit] * 2 + [none] * (len(at) - 2)


@pytest.mark.parametrize("tree", [TREES["crun-systemd-v2"]])
def test_a_process_whose_cgroup_has_no_cpuset_has_that_of_its_container(node):
    node.born("a", 1, effective="2-3")
    for file in (node.top / node.tree.pods / f"{node.container('a', 1)}/container").iterdir():
        file.unlink()
    assert node.hook(1, "uid-a", "2-3", state={"id": number("a")}).returncode == 0
    assert node.cpus("a", 1) == "2-3"
