"""What a kubelet of the plane remembers; a restart with it is in test_pods.py."""

import shlex
import subprocess

import pytest

from dra.model.meta import Uid
from localplane.nodes.dra_manager import ClaimInfo
from localplane.nodes.drivers import ClaimIdentity
from localplane.nodes.plugins.checkpoints import FileCheckpointer, UnreadableCheckpointError

KNOWN = [ClaimInfo(ClaimIdentity(key=("ml", "train"), uid=Uid("u1"), drivers=("gpu.example.com",)), {Uid("p1"): None})]


def test_what_was_saved_is_loaded_by_node(tmp_path):
    checkpoints = FileCheckpointer({"n1": tmp_path / "n1", "n2": tmp_path / "n2"})
    checkpoints.save("n1", KNOWN)
    assert checkpoints.load() == {"n1": KNOWN}


@pytest.mark.parametrize("content", [b"[{", b"", b"{}", b'[{"identity": 3}]', b"\xff\xfe"])
def test_one_that_cannot_be_read_is_refused_with_the_file_and_the_way_out(tmp_path, content):
    checkpoints = FileCheckpointer({"n1": tmp_path})
    path = tmp_path / "dra_manager_state"
    path.write_bytes(content)
    with pytest.raises(UnreadableCheckpointError, match=f"^node n1: its checkpoint {path} cannot be read: ") as refused:
        checkpoints.load()
    assert path.read_bytes() == content, "nothing is lost"
    way_out = str(refused.value).partition("begin without it: ")[2].partition(", and")[0]
    subprocess.run(shlex.split(way_out), check=True)
    assert checkpoints.load() == {}
    assert path.with_name("dra_manager_state.damaged").read_bytes() == content


def test_a_folder_in_its_place_is_refused_too(tmp_path):
    (tmp_path / "dra_manager_state").mkdir()
    with pytest.raises(UnreadableCheckpointError, match="cannot be read: Is a directory"):
        FileCheckpointer({"n1": tmp_path}).load()
