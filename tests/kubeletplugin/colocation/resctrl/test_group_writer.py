"""Groups that a plugin with colocation left behind."""

from dra.engine.resctrl.groups import ResctrlGroup
from kubeletplugin.colocation.resctrl.group_record import GroupRecord
from kubeletplugin.colocation.resctrl.group_writer import restore_groups
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel


def test_a_plugin_that_starts_without_colocation_restores_what_an_earlier_one_divided(tmp_path):
    kernel = FakeKernel(machines.AMD)
    kernel.make_group("BE")
    kernel.write_line("BE", "L3:0=1f\nMB:0=48\n")
    GroupRecord(tmp_path).write({ResctrlGroup.BE})
    restore_groups(tmp_path, files=kernel)
    assert kernel.groups["BE"] == kernel.defaults
    assert GroupRecord(tmp_path).read() == frozenset()


def test_without_a_record_the_filesystem_is_not_looked_at(tmp_path):
    restore_groups(tmp_path / "none", files=None)
    assert list(tmp_path.iterdir()) == []


def test_a_filesystem_that_cannot_be_read_stops_no_plugin(tmp_path, monkeypatch, caplog):
    kernel = FakeKernel(machines.AMD)
    monkeypatch.setattr(kernel, "read_tree", (tmp_path / "absent").read_text)
    GroupRecord(tmp_path).write({ResctrlGroup.BE})
    restore_groups(tmp_path, files=kernel)
    assert "control groups keep their limits" in caplog.text
