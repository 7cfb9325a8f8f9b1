"""A retry of a write that failed, or was killed, between rename and sync: what it reports as recorded is durable.

The retry finds its content in the file and does not write it again, so the directory must be synced some other way.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

import pytest

from dra.engine.cpus.cpusets import parse
from dra.engine.resctrl.groups import ResctrlGroup
from dra.model.quantities import NANOS_PER_UNIT
from kubeletplugin.checkpoint import Checkpoint, CheckpointError
from kubeletplugin.colocation.resctrl.group_record import GroupRecord
from kubeletplugin.contract import PreparedClaim
from kubeletplugin.drivers.cpu.cpuset_store import CpusetStore
from kubeletplugin.drivers.gpu.device_names import DeviceNames
from tests.kubeletplugin.drivers.cpu.test_topology_report import node
from tests.kubeletplugin.drivers.gpu.test_device_names import gpu
from tests.kubeletplugin.fakes import prepared, request


class Disk:
    """The directories whose names a loss of power may still change; a sync of these can be made to fail."""

    def __init__(self, monkeypatch):
        self.fails = False
        self.unsynced = set()
        sync, replace, unlink = os.fsync, os.replace, os.unlink

        def fsync(descriptor):
            folder = Path(f"/proc/self/fd/{descriptor}").readlink()
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                if self.fails and folder in self.unsynced:
                    raise OSError(errno.EIO, "Input/output error")
                self.unsynced.discard(folder)
            sync(descriptor)

        def renamed(path, target):
            self.unsynced.add(Path(target).parent)
            return replace(path, target)

        def removed(path, **options):
            unlink(path, **options)
            self.unsynced.add(Path(path).parent)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "replace", renamed)
        monkeypatch.setattr(os, "unlink", removed)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


CLAIMS = (prepared(request("a", "gpu-0")),)


class CheckpointWrites:
    """As the store of claims: what the file has already is not written."""

    def __init__(self, folder):
        self.checkpoint = Checkpoint(folder / "checkpoint.json", PreparedClaim)
        self.known = ()

    def run(self):
        if self.checkpoint.changed:
            self.known = self.checkpoint.read()
        if self.known != CLAIMS:
            self.checkpoint.write(CLAIMS)


class NameWrites:
    def __init__(self, folder):
        self.names = DeviceNames(folder / "device-names.json")

    def run(self):
        self.names.record(self.names.assign([gpu(0, "A")]), held=frozenset())


class GroupWrites:
    """As a plan of resctrl: recorded groups are not recorded again."""

    groups = frozenset({ResctrlGroup.BE})

    def __init__(self, folder):
        self.record = GroupRecord(folder)

    def run(self):
        if self.record.read() != self.groups:
            self.record.write(self.groups)


class NoGroupWrites(GroupWrites):
    groups = frozenset()

    def __init__(self, folder):
        super().__init__(folder)
        if not (folder / "begun").exists():
            self.record.write({ResctrlGroup.BE})
            (folder / "begun").touch()


class KeptCpuWrites:
    """As the CPU driver after a start."""

    def __init__(self, folder):
        self.store = CpusetStore(folder)

    def run(self):
        if self.store.kept() != parse("0-1"):
            self.store.put_kept(parse("0-1"))


@pytest.mark.parametrize("again", ["the-same-process", "the-next-process"])
@pytest.mark.parametrize("writes", [CheckpointWrites, NameWrites, GroupWrites, NoGroupWrites, KeptCpuWrites])
def test_what_a_retry_reports_as_recorded_survives_a_loss_of_power(tmp_path, disk, writes, again):
    writer = writes(tmp_path)
    disk.unsynced.clear()
    disk.fails = True
    with pytest.raises((OSError, CheckpointError)):
        writer.run()
    assert disk.unsynced == {tmp_path}
    retry = writer if again == "the-same-process" else writes(tmp_path)
    with contextlib.suppress(OSError, CheckpointError, ValueError):
        retry.run()
    disk.fails = False
    retry.run()
    assert disk.unsynced == set()


def test_a_reservation_of_cpus_that_could_not_be_stored_is_stored_with_the_next_event(tmp_path, disk):
    driver = node(tmp_path)
    reserve = {"annotation": '{"reservedCPUs": "0-1"}', "allocatable": {"cpu": 16 * NANOS_PER_UNIT}}
    disk.fails = True
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            driver.apply_node_reservation(**reserve)
    disk.fails = False
    driver.apply_node_reservation(**reserve)
    assert disk.unsynced == set()
