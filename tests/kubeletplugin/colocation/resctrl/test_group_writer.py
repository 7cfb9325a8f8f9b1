"""Groups that a plugin with colocation left behind."""

import os

import pytest

from dra.engine.resctrl.groups import ResctrlGroup
from kubeletplugin.colocation.resctrl.group_record import RECORD_FILE, GroupRecord
from kubeletplugin.colocation.resctrl.group_writer import create_restorer, restore_abandoned_groups
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel


def test_a_plugin_that_starts_without_colocation_restores_what_an_earlier_one_divided(tmp_path):
    kernel = FakeKernel(machines.AMD)
    kernel.make_group("BE")
    kernel.write_line("BE", "L3:0=1f\nMB:0=48\n")
    GroupRecord(tmp_path).write({ResctrlGroup.BE})
    create_restorer(tmp_path, files=kernel).restore()
    assert kernel.groups["BE"] == kernel.defaults
    assert GroupRecord(tmp_path).read() == frozenset()


def test_without_a_record_the_filesystem_is_not_looked_at(tmp_path):
    create_restorer(tmp_path / "none", files=None).restore()
    assert list(tmp_path.iterdir()) == []


def test_a_filesystem_that_cannot_be_read_stops_no_plugin(tmp_path, monkeypatch, caplog):
    kernel = FakeKernel(machines.AMD)
    monkeypatch.setattr(kernel, "read_tree", (tmp_path / "absent").read_text)
    GroupRecord(tmp_path).write({ResctrlGroup.BE})
    create_restorer(tmp_path, files=kernel).restore()
    assert "control groups keep their limits" in caplog.text


@pytest.mark.parametrize(("used", "restored"), [(True, False), (False, True)], ids=["in-use", "abandoned"])
def test_groups_that_another_daemonset_divides_each_ten_seconds_are_left_to_it(tmp_path, used, restored):
    kernel = FakeKernel(machines.AMD)
    kernel.make_group("BE")
    kernel.write_line("BE", "MB:0=48\n")
    GroupRecord(tmp_path).write({ResctrlGroup.BE})
    os.utime(tmp_path / RECORD_FILE, (0, 0))
    if used:
        GroupRecord(tmp_path).touch()
    restore_abandoned_groups(create_restorer(tmp_path, files=kernel))
    assert (kernel.groups["BE"] == kernel.defaults) is restored
    assert bool(GroupRecord(tmp_path).read()) is not restored


def test_without_the_hosts_mount_the_record_stays_for_who_can_restore_and_that_is_said_once(tmp_path, caplog):
    kernel = FakeKernel(machines.AMD)
    kernel.mounted = False
    GroupRecord(tmp_path).write({ResctrlGroup.BE})
    restorer = create_restorer(tmp_path, files=kernel)
    restorer.restore()
    restorer.restore()
    assert GroupRecord(tmp_path).read() == {ResctrlGroup.BE}
    assert [each.message for each in caplog.records] == [
        "resctrl: control groups BE may keep their limits: the host's resctrl is not mounted here"
    ]
