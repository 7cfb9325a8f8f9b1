"""Every shape of machine is read as what it is; what the kernel does not tell is assumed aloud."""

from pathlib import Path

import pytest
import yaml

from dra.engine.cpus.cpusets import CpuSet, parse
from kubeletplugin.inventory import sysfs_cpus
from kubeletplugin.inventory.sysfs_cpus import UnreadableTopologyError
from tests.kubeletplugin.inventory import machines


def shown(groups):
    return {key: str(cpus) for key, cpus in groups.items()}


def l3s(topology):
    known = {cpu.l3 for cpu in topology.cpus} - {None}
    return {l3: CpuSet(cpu.id for cpu in topology.cpus if cpu.l3 == l3) for l3 in sorted(known)}


@pytest.mark.parametrize("name", machines.names())
def test_a_machine_is_read_as_what_it_is(name, tmp_path):
    machine = machines.load(name)
    expected = machine["expect"]

    reading = sysfs_cpus.read_topology(machines.build(machine, tmp_path))

    topology = reading.topology
    assert shown(topology.sockets) == expected["sockets"]
    assert shown(topology.numa_nodes) == expected["nodes"]
    assert shown(l3s(topology)) == expected["l3s"]
    assert len(topology.cores) == expected.get("core_count", len(topology.cores))
    assert shown(topology.cores) == expected.get("cores", shown(topology.cores))
    assert topology.offline == parse(expected.get("offline", ""))
    assert topology.isolated == parse(expected.get("isolated", ""))
    assert list(topology.memory_only_numa_nodes) == expected.get("memory_only", [])
    types = {
        kind: CpuSet(c.id for c in topology.cpus if c.core_type == kind)
        for kind in {c.core_type for c in topology.cpus}
    }
    assert shown(types) == expected.get("types", {"standard": str(topology.online)})
    assert {cpu: topology.by_id[cpu].core_id for cpu in expected.get("core_ids", ())} == expected.get("core_ids", {})
    assert list(reading.assumptions) == expected.get("assumed", [])


@pytest.mark.parametrize("name", machines.names())
def test_what_was_read_can_be_read_again_elsewhere(name, tmp_path):
    reading = sysfs_cpus.read_topology(machines.build(machines.load(name), tmp_path / "there"))
    assert sysfs_cpus.read_topology(machines.write(reading.files, tmp_path / "here")) == reading


def test_the_recorded_machine_is_read(tmp_path):
    recorded = yaml.safe_load(Path(__file__).with_name("recorded").joinpath("epyc-vm-2-cpus.yaml").read_text())
    reading = sysfs_cpus.read_topology(machines.write(recorded["files"], tmp_path))
    assert shown(reading.topology.cores) == {0: "0", 1: "1"}
    assert (
        shown(l3s(reading.topology))
        == shown(reading.topology.sockets)
        == shown(reading.topology.numa_nodes)
        == {0: "0-1"}
    )
    assert reading.assumptions == ()


def test_this_very_machine_is_read():
    reading = sysfs_cpus.read_topology()
    told = Path("/sys/devices/system/cpu/online")
    if told.exists():
        assert reading.topology.online == parse(told.read_text())
    assert reading.files


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        pytest.param("sys/devices/system/cpu/online", "0-x\n", "CPU list '0-x\\n': '0-x' is neither", id="list"),
        pytest.param(
            "sys/devices/system/cpu/cpu0/topology/physical_package_id", "one\n", "'one' is no number", id="number"
        ),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_file(path, text, problem, tmp_path):
    root = machines.build(machines.load("desktop"), tmp_path)
    (root / path).write_text(text)
    with pytest.raises(UnreadableTopologyError) as refused:
        sysfs_cpus.read_topology(root)
    assert str(refused.value).startswith(f"{root / path}: ")
    assert problem in str(refused.value)


def test_what_is_no_text_is_refused_with_the_file(tmp_path):
    root = machines.build(machines.load("desktop"), tmp_path)
    (root / "sys/devices/system/cpu/isolated").write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableTopologyError, match="cpu/isolated"):
        sysfs_cpus.read_topology(root)


@pytest.mark.parametrize("path", ["sys/devices/system/node", "sys/devices/system/cpu/isolated"])
def test_what_may_not_be_read_is_refused_with_its_path(path, tmp_path, monkeypatch):
    root = machines.build(machines.load("desktop"), tmp_path)
    for method in ("iterdir", "read_text"):
        real = getattr(Path, method)

        def denied(self, real=real):
            if self == root / path:
                raise PermissionError(13, "Permission denied", str(self))
            return real(self)

        monkeypatch.setattr(Path, method, denied)
    with pytest.raises(UnreadableTopologyError, match=f"^{root / path}: .*Permission denied"):
        sysfs_cpus.read_topology(root)


def test_nothing_at_all_is_refused(tmp_path):
    with pytest.raises(UnreadableTopologyError, match=r"lists no CPU, nor does .*cpuinfo; check that sysfs is mounted"):
        sysfs_cpus.read_topology(tmp_path)


@pytest.mark.parametrize(
    ("machine", "assumed"),
    [
        pytest.param({"without": ["cpu/online"]}, "CPUs 0-7: no sys/devices/system/cpu/online; all", id="online"),
        pytest.param({"without": ["core_cpus_list"]}, "CPUs 0-7: the kernel names no siblings", id="siblings"),
        pytest.param(
            {"files": {"sys/devices/system/cpu/cpu5/topology/physical_package_id": "-1\n"}},
            "CPUs 5: the kernel names no socket; taken for socket 0",
            id="socket-minus-one",
        ),
        pytest.param(
            {"files": {"sys/devices/system/node/node0/cpulist": "0-3\n"}},
            "CPUs 4-7: on no NUMA node; taken for node 0",
            id="cpus-on-no-node",
        ),
    ],
)
def test_what_is_missing_is_assumed_aloud(machine, assumed, tmp_path):
    reading = sysfs_cpus.read_topology(machines.build(machines.load("desktop") | machine, tmp_path))
    assert [line for line in reading.assumptions if line.startswith(assumed)]


def test_older_kernels_name_siblings_otherwise(tmp_path):
    files = machines.files_of(machines.load("desktop"))
    old = {path.replace("core_cpus_list", "thread_siblings_list"): text for path, text in files.items()}
    assert shown(sysfs_cpus.read_topology(machines.write(old, tmp_path)).topology.cores)[0] == "0,4"
