"""The record of groups, which survives the plugin."""

import pytest

from dra.engine.resctrl.groups import ResctrlGroup
from kubeletplugin.colocation.resctrl.group_record import RECORD_FILE, GroupRecord

BE, LS = ResctrlGroup.BE, ResctrlGroup.LS


def test_groups_are_read_as_they_were_written(tmp_path):
    record = GroupRecord(tmp_path / "state")
    assert record.read() == frozenset()
    record.write({LS, BE})
    assert GroupRecord(tmp_path / "state").read() == {BE, LS}
    record.write({LS})
    assert record.read() == {LS}


def test_no_group_means_no_file(tmp_path):
    record = GroupRecord(tmp_path)
    record.write({BE})
    record.write(frozenset())
    record.write(frozenset())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "../../etc\nBEE\n", "be\n", "\x00\xff\n"])
def test_names_that_are_no_groups_are_left_out(tmp_path, text):
    (tmp_path / RECORD_FILE).write_text(f"{text}LS\n")
    assert GroupRecord(tmp_path).read() == {LS}
