import json
import re
import stat
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.cdi import CdiSpecDirectory, build_spec, device_ids, is_safe_in_file_name, validate_driver_name
from kubeletplugin.contract import ContainerEdits, DeviceNode, Hook, Mount, PreparedClaim, PreparedDevice
from tests.kubeletplugin.fakes import DRIVER, claim, prepared, request

NOTHING = ContainerEdits()
ENV = ContainerEdits(env=("A=b",))


def preparation(*edits, uid="c1", common=NOTHING):
    devices = tuple(PreparedDevice(requests=("r",), pool="n1", device=f"gpu-{n}", edits=e) for n, e in enumerate(edits))
    return PreparedClaim(claim=claim("a", uid), driver=DRIVER, devices=devices, common=common)


def test_all_edits_are_rendered_as_the_specification_names_them():
    edits = ContainerEdits(
        env=("A=b",),
        device_nodes=(
            DeviceNode(path="/dev/nvidia0", host_path="/dev/n0", permissions="rw"),
            DeviceNode(path="/dev/x"),
        ),
        mounts=(Mount(host_path="/h", container_path="/c", options=("ro", "bind")),),
        hooks=(Hook(hook_name="createContainer", path="/p", args=("p", "x"), env=("E=f",)),),
    )
    assert json.loads(msgspec.json.encode(build_spec(preparation(edits, common=ENV)))) == {
        "cdiVersion": "0.5.0",
        "kind": "gpu.reserve.dra/claim",
        "devices": [
            {
                "name": "c1-0",
                "containerEdits": {
                    "env": ["A=b"],
                    "deviceNodes": [
                        {"path": "/dev/nvidia0", "hostPath": "/dev/n0", "permissions": "rw"},
                        {"path": "/dev/x"},
                    ],
                    "mounts": [{"hostPath": "/h", "containerPath": "/c", "options": ["ro", "bind"]}],
                    "hooks": [{"hookName": "createContainer", "path": "/p", "args": ["p", "x"], "env": ["E=f"]}],
                },
            }
        ],
        "containerEdits": {"env": ["A=b"]},
    }


@pytest.mark.parametrize(
    ("rendered", "version"),
    [
        pytest.param(preparation(ENV), "0.3.0", id="nothing-special"),
        pytest.param(preparation(ENV, uid="3f1c"), "0.5.0", id="a-name-begins-with-a-digit"),
        pytest.param(
            preparation(ContainerEdits(device_nodes=(DeviceNode(path="/dev/x", host_path="/dev/y"),))),
            "0.5.0",
            id="a-host-path",
        ),
        pytest.param(
            preparation(ENV, common=ContainerEdits(device_nodes=(DeviceNode(path="/dev/x", host_path="/dev/y"),))),
            "0.5.0",
            id="a-host-path-for-all",
        ),
    ],
)
def test_the_version_is_the_lowest_that_knows_what_is_used(rendered, version):
    assert build_spec(rendered)["cdiVersion"] == version


def test_each_device_has_an_id_of_its_claim():
    assert device_ids(preparation(ENV, ENV)) == (("gpu.reserve.dra/claim=c1-0",), ("gpu.reserve.dra/claim=c1-1",))


def test_a_device_that_changes_nothing_has_no_id_and_is_not_in_the_file():
    """Runtimes reject a file in which a device has no edits."""
    mixed = preparation(ContainerEdits(), ENV)
    assert device_ids(mixed) == ((), ("gpu.reserve.dra/claim=c1-1",))
    assert [device["name"] for device in build_spec(mixed)["devices"]] == ["c1-1"]
    assert build_spec(preparation(ContainerEdits())) is None
    assert build_spec(preparation()) is None


def test_a_device_through_which_a_container_gets_what_is_common_is_valid():
    rendered = build_spec(preparation(ContainerEdits(), common=ENV))
    assert rendered["devices"] == [
        {"name": "c1-0", "containerEdits": {"env": ["DRA_DEVICE_GPU_0=gpu.reserve.dra/n1/gpu-0"]}}
    ]
    assert rendered["containerEdits"]["env"] == ("A=b",)


@pytest.mark.parametrize(
    "name", ["", "GPU.x", "../x", "1.gpu", "a" * 64, "a..b", "a.", "a/b", "a\n", "gpu-claim-x.y", "gpu_x"]
)
def test_a_driver_that_no_file_can_be_named_after_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="not a DNS subdomain"):
        validate_driver_name(name)
    with pytest.raises(ValueError, match="not a DNS subdomain"):
        CdiSpecDirectory(tmp_path, driver=name)


@pytest.mark.parametrize("uid", ["", ".", "..", "../x", "a/b", "a\0b", "a b", "-a", "x" * 129, "x-claim-y", "a\n"])
def test_a_uid_that_no_file_can_be_named_after_is_refused(uid, tmp_path):
    with pytest.raises(ValueError, match="the uid cannot be part of a file name"):
        CdiSpecDirectory(tmp_path, driver=DRIVER).path(uid)


@pytest.fixture
def folder(tmp_path):
    return CdiSpecDirectory(tmp_path / "cdi", driver=DRIVER)


def test_a_file_is_written_whole_for_all_to_read(folder):
    one = prepared(request("a", "gpu-0"))
    folder.write(one)
    (path,) = folder.folder.iterdir()
    assert path.name == "gpu.reserve.dra-claim-uid-a.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert json.loads(path.read_text()) == json.loads(msgspec.json.encode(build_spec(one)))


def test_a_file_that_would_say_nothing_is_not_there(folder):
    folder.write(preparation(ENV))
    folder.write(preparation(ContainerEdits()))
    assert not folder.uids()


def test_a_draft_is_overlooked_by_runtimes_and_taken_over(folder):
    one = prepared(request("a", "gpu-0"))
    folder.folder.mkdir()
    (folder.folder / ".gpu.reserve.dra-claim-uid-a.json.tmp").write_text("half")
    assert not folder.uids()
    folder.write(one)
    assert [path.suffix for path in folder.folder.iterdir()] == [".json"]


def test_only_our_own_files_are_ours(folder):
    folder.write(preparation(ENV, uid="c1"))
    for name in ("cpu.reserve.dra-claim-c2.json", "gpu.reserve.dra-claim-a-claim-b.json", "gpu.reserve.dra.json"):
        (folder.folder / name).write_text("{}")
    assert folder.uids() == {"c1"}
    assert folder.remove_orphans([]) == {"c1"}
    assert len(list(folder.folder.iterdir())) == 3


def test_what_is_not_there_is_removed_already(folder):
    folder.remove("c1")
    assert folder.remove_orphans(["c1"]) == folder.uids() == frozenset()


TEXT = st.text(max_size=20) | st.sampled_from(["", "gpu-0", "../../etc/passwd", "a/b", "A=B", "x\0y", "ü", "x" * 300])
CDI_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
CDI_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]/[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]")


@given(
    uid=TEXT,
    names=st.lists(st.tuples(TEXT, TEXT, st.booleans()), max_size=4),
    common=st.sampled_from([NOTHING, ENV]),
)
def test_whatever_a_claim_and_its_devices_are_called_the_file_is_a_valid_one_in_its_place(uid, names, common):
    devices = tuple(
        PreparedDevice(requests=("r",), pool=pool, device=device, edits=ENV if edits else NOTHING)
        for pool, device, edits in names
    )
    asked = PreparedClaim(claim=claim("a", uid or "-"), driver=DRIVER, devices=devices, common=common)
    with tempfile.TemporaryDirectory() as root:
        folder = CdiSpecDirectory(Path(root, "cdi"), driver=DRIVER)
        if not is_safe_in_file_name(asked.claim.uid):
            with pytest.raises(ValueError, match="the uid cannot be part of a file name"):
                folder.write(asked)
            assert list(Path(root).rglob("*")) == [], "nothing was written anywhere"
            return
        folder.write(asked)
        files = [path for path in Path(root).rglob("*") if path.is_file()]
        assert {path.parent for path in files} <= {folder.folder}
        assert len(files) == any(edits or common is ENV for _, _, edits in names)
        for path in files:
            written = json.loads(path.read_bytes())
            assert CDI_KIND.fullmatch(written["kind"])
            found = [each["name"] for each in written["devices"]]
            assert len(set(found)) == len(found)
            assert all(CDI_NAME.fullmatch(name) for name in found)
            assert [name for each in device_ids(asked) for name in each] == [
                f"{written['kind']}={name}" for name in found
            ]
            for each in written["devices"]:
                assert each["containerEdits"], "a device without edits makes runtimes reject the file"
                assert all("=" in variable and "\0" not in variable for variable in each["containerEdits"]["env"])
        assert folder.remove_orphans([]) == ({asked.claim.uid} if files else frozenset())
        assert list(folder.folder.glob("*")) == []
