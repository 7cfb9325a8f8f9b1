import pytest

from dra.engine.cpus.cpusets import NO_CPUS, parse
from kubeletplugin.drivers.cpu.device_modes import DEVICE_MODES, PublishedCpus
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.node_device import HeldCpus
from tests.kubeletplugin.drivers.cpu.test_devices import SMT

INDIVIDUAL, GROUPED, NODE = (DEVICE_MODES[mode] for mode in CpuDeviceMode)
ALL = PublishedCpus(topology=SMT, allocatable=SMT.online)


def test_each_mode_has_a_class_of_its_own():
    assert set(DEVICE_MODES) == set(CpuDeviceMode)
    assert len({type(mode) for mode in DEVICE_MODES.values()}) == len(CpuDeviceMode)


@pytest.mark.parametrize(
    ("mode", "first"),
    [
        pytest.param(INDIVIDUAL, "cpu-0", id="a-device-for-each-cpu"),
        pytest.param(GROUPED, "numa-0", id="a-device-for-each-numa-node"),
        pytest.param(NODE, "cpus", id="one-device-first"),
    ],
)
def test_a_mode_names_its_devices(mode, first):
    assert mode.build(ALL)[0].name == first


@pytest.mark.parametrize(
    ("mode", "now", "depends"),
    [
        pytest.param(INDIVIDUAL, "2", False, id="a-held-cpu-keeps-its-device"),
        pytest.param(INDIVIDUAL, "99", True, id="an-offline-held-cpu-has-a-device"),
        pytest.param(GROUPED, "2", False, id="the-scheduler-counts-what-is-consumed"),
        pytest.param(NODE, "2", True, id="the-device-has-what-is-left"),
    ],
)
def test_devices_depend_on_held_cpus_where_the_mode_says_so(mode, now, depends):
    assert mode.depends_on(HeldCpus(cpus=parse(now)), before=HeldCpus(), online=SMT.online) is depends


@pytest.mark.parametrize("mode", [INDIVIDUAL, GROUPED], ids=["individual", "grouped"])
def test_only_the_mode_node_follows_labels_counts_and_reports(mode):
    labels = {"node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly"}
    assert NODE.policies(labels)[0] != mode.policies(labels)[0]
    assert (NODE.counts_beside_static, mode.counts_beside_static) == (True, False)
    assert mode.topology_annotations(SMT, pytest.fail) == {}
    assert (len(NODE.hook_arguments), len(mode.hook_arguments)) == (1, 0)


def test_a_cpu_without_number_or_offline_is_flawed_where_it_is_a_device():
    moved = {1: "CPU 1 was another one"}
    flaws = INDIVIDUAL.flaws((), parse("0-1,99"), online=SMT.online, moved=moved)
    assert dict(flaws) == {"cpu-0": "", "cpu-1": moved[1], "cpu-99": "CPU 99 is offline"}
    assert dict(GROUPED.flaws(GROUPED.build(ALL), NO_CPUS, online=SMT.online, moved=moved)) == {
        device.name: "" for device in GROUPED.build(ALL)
    }
