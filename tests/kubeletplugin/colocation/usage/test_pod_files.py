import errno
import gc
import resource
import shutil
from pathlib import Path

import pytest

from kubeletplugin.cgroups.cgroup_files import OpenFile
from kubeletplugin.cgroups.pod_cgroups import find_pod_hierarchies
from kubeletplugin.colocation.usage.pod_files import PodFileReader
from tests.kubeletplugin.cgroups import recorded
from tests.kubeletplugin.cgroups.recorded import JOB, LAYOUTS, WEB, PodUse, add_pod, set_use

VERSIONS = [pytest.param(recorded.v1, id="v1"), pytest.param(recorded.v2, id="v2")]


class Machine:
    def __init__(self, root, layout="cgroupfs", **options):
        self.root = root
        self.path, self.container = LAYOUTS[layout]
        self.reader = PodFileReader(clock=lambda: 5.0, **options)

    def add(self, uid, qos="burstable", use=PodUse()):  # noqa: B008 - frozen
        add_pod(self.root, self.path(qos, uid), container=self.container, use=use)

    def remove(self, uid, qos="burstable"):
        for folder in self.root.rglob(self.path(qos, uid).rpartition("/")[2]):
            shutil.rmtree(folder)

    def read(self, *, memory=True):
        hierarchies = find_pod_hierarchies(self.root)
        paths = {cgroup.path: uid for uid, cgroup in hierarchies.read_pods().items()}
        return {paths[path]: reading for path, reading in self.reader.read(hierarchies, paths, memory=memory)}


@pytest.mark.parametrize("make", VERSIONS)
@pytest.mark.parametrize("layout", ["cgroupfs", "systemd-crio", "kind-systemd"])
def test_a_pods_use_is_read_from_its_own_cgroup(tmp_path, make, layout):
    machine = Machine(make(tmp_path), layout)
    machine.add(WEB, use=PodUse(cpu_nanos=1_003_000_000, usage_bytes=107_950_080, inactive_bytes=83_886_080))
    (reading,) = machine.read().values()
    assert (reading.cpu_nanos, reading.memory_bytes) == (1_003_000_000, 24_064_000)
    assert reading.at == 5.0


@pytest.mark.parametrize("make", VERSIONS)
def test_counters_are_read_anew_from_open_files(tmp_path, make):
    machine = Machine(make(tmp_path))
    machine.add(WEB)
    machine.read()
    opened = dict(machine.reader._files)
    set_use(machine.root, machine.path("burstable", WEB), PodUse(cpu_nanos=7_000, usage_bytes=10, inactive_bytes=4))
    reading = machine.read()[WEB]
    assert (reading.cpu_nanos, reading.memory_bytes, reading.renewed) == (7_000, 6, False)
    assert machine.reader._files == opened


@pytest.mark.parametrize("make", VERSIONS)
def test_between_two_readings_of_memory_its_last_amount_is_given(tmp_path, make):
    machine = Machine(make(tmp_path))
    machine.add(WEB)
    machine.read()
    set_use(machine.root, machine.path("burstable", WEB), PodUse(cpu_nanos=9_000, usage_bytes=1, inactive_bytes=0))
    reading = machine.read(memory=False)[WEB]
    assert (reading.cpu_nanos, reading.memory_bytes) == (9_000, 24_064_000)


def test_a_cgroup_made_anew_under_the_same_name_is_told(tmp_path, monkeypatch):
    """The kernel answers ENODEV on the files of the old one; a folder that only looks like a cgroup does not."""
    machine = Machine(recorded.v2(tmp_path))
    machine.add(WEB)
    assert machine.read()[WEB].renewed
    assert not machine.read()[WEB].renewed
    gone = next(iter(machine.reader._files.values()))._cpu
    monkeypatch.setattr(OpenFile, "read", lambda self, read=OpenFile.read: None if self is gone else read(self))
    assert machine.read()[WEB].renewed


def test_a_pod_that_ended_is_left_out_and_its_files_are_closed(tmp_path):
    machine = Machine(recorded.v1(tmp_path))
    machine.add(WEB)
    machine.add(JOB)
    machine.read()
    machine.remove(JOB)
    assert machine.read().keys() == {WEB}
    assert len(machine.reader._files) == 1
    assert machine.reader.unreadable == {}


@pytest.mark.parametrize(
    ("file", "content"),
    [("memory.stat", "nothing 1\n"), ("memory.current", ""), ("cpu.stat", "usage_usec x\n"), ("memory.stat", None)],
)
def test_a_pod_whose_files_cannot_be_read_is_told_and_others_are_read(tmp_path, file, content):
    machine = Machine(recorded.v2(tmp_path))
    machine.add(WEB)
    machine.add(JOB)
    broken = machine.root / machine.path("burstable", JOB) / file
    broken.unlink() if content is None else broken.write_text(content)
    assert machine.read().keys() == {WEB}
    assert len(machine.reader.unreadable) == 1


def test_pressure_is_read_where_the_pods_own_cgroup_has_it(tmp_path):
    machine = Machine(recorded.v2(tmp_path))
    machine.add(WEB, use=PodUse(pressure_micros=123))
    machine.add(JOB)
    found = machine.read()
    assert (found[WEB].pressure.total_micros, found[JOB].pressure) == (123, None)


@pytest.mark.parametrize("populated", [0, 1])
def test_pressure_beside_v1_counts_only_where_the_pods_processes_are(tmp_path, populated):
    """systemd makes cgroups of the same names in the unified tree; they measure the pressure of no process."""
    machine = Machine(recorded.v1(tmp_path))
    machine.add(WEB)
    folder = tmp_path / "unified" / machine.path("burstable", WEB)
    folder.mkdir(parents=True)
    (tmp_path / "unified/cgroup.controllers").write_text("")
    (folder / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")
    (folder / "cpu.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=55\n")
    pressure = machine.read()[WEB].pressure
    assert (pressure and pressure.total_micros) == (55 if populated else None)


def test_pressure_that_is_switched_off_is_absent_and_the_pod_is_read(tmp_path, monkeypatch):
    machine = Machine(recorded.v2(tmp_path))
    machine.add(WEB, use=PodUse(pressure_micros=123))
    machine.read()
    pressure = next(iter(machine.reader._files.values()))._pressure

    def read(opened, read=OpenFile.read):
        if opened is pressure:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return read(opened)

    monkeypatch.setattr(OpenFile, "read", read)
    assert machine.read()[WEB].pressure is None


def test_all_pods_together_have_a_counter_of_their_own(tmp_path):
    machine = Machine(recorded.v1(tmp_path))
    machine.add(WEB)
    set_use(machine.root, "kubepods", PodUse(cpu_nanos=77))
    hierarchies = find_pod_hierarchies(machine.root)
    assert machine.reader.read_kubepods(hierarchies) == 77
    (machine.root / "cpuacct/kubepods/cpuacct.usage").unlink()
    assert machine.reader.read_kubepods(hierarchies) is None


def test_more_pods_than_files_may_stay_open_are_read_all_the_same(tmp_path):
    machine = Machine(recorded.v2(tmp_path), kept_max=1)
    for uid in (WEB, JOB):
        machine.add(uid)
    for _ in range(3):
        assert machine.read().keys() == {WEB, JOB}
    assert len(machine.reader._files) == 1


def test_five_thousand_pods_that_come_and_go_leave_neither_files_nor_memory_behind(tmp_path):
    """koord#1981: an agent grew with each pod that ended."""
    machine, at_once = Machine(recorded.v2(tmp_path)), 100
    folder = tmp_path / "kubepods/burstable"

    def uid(number):
        return f"00000000-0000-0000-0000-{number:012d}"

    for number in range(at_once):
        machine.add(uid(number))

    def replace(first, last):
        for start in range(first, last, at_once):
            for number in range(start, start + at_once):
                (folder / f"pod{uid(number)}").rename(folder / f"pod{uid(number + at_once)}")
            assert len(machine.read()) == at_once
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir())), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    files, memory = replace(0, 1000)
    later_files, later_memory = replace(1000, 5000)
    assert later_files <= files
    assert later_memory - memory < 4 * 1024  # KiB
    assert len(machine.reader._files) == at_once
