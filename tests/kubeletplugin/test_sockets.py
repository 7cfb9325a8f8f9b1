import os
import socket
import stat
from pathlib import Path

import pytest

from kubeletplugin import sockets
from kubeletplugin.sockets import (
    MAX_SOCKET_PATH,
    SocketPathError,
    driver_socket_paths,
    ensure_private_directory,
    remove_stale_socket,
    sibling_sockets,
    validate_socket_path,
)

SHORT = "gpu.reserve.dra"
LONG = f"{'g' * 48}.reserve.dra"
UIDS = ("0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002")


def test_a_socket_path_may_have_107_bytes(short_path):
    room = 107 - len(os.fsencode(short_path)) - 1
    fitting = short_path / ("s" * room)
    assert validate_socket_path(fitting, option="--plugins") == fitting
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(fitting))
    too_long = short_path / ("ü" * ((room + 2) // 2))
    with pytest.raises(SocketPathError) as caught:
        validate_socket_path(too_long, option="--plugins")
    length = len(os.fsencode(too_long))
    assert str(caught.value) == (
        f"socket {too_long}: the path has {length} bytes, but unix sockets allow 107; "
        "choose a directory with a shorter path: --plugins"
    )


def test_a_socket_path_is_absolute(tmp_path):
    with pytest.raises(SocketPathError, match=r"socket x/dra\.sock: must be an absolute path; change --plugins"):
        validate_socket_path(tmp_path.relative_to(tmp_path) / "x/dra.sock", option="--plugins")


def test_a_folder_is_ours_alone_even_if_it_was_not(tmp_path):
    folder = tmp_path / "a/b"
    assert ensure_private_directory(folder) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    ensure_private_directory(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_link_is_no_folder_of_ours(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(OSError, match="Not a directory"):
        ensure_private_directory(link)


def test_a_stale_socket_is_removed(short_path):
    path = short_path / "dra.sock"
    assert not remove_stale_socket(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert remove_stale_socket(path)
    assert not path.exists()


def test_a_socket_that_somebody_listens_on_stays(short_path):
    path = short_path / "dra.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(SocketPathError, match="another process listens there; stop it"):
            remove_stale_socket(path)
    assert path.exists()


def test_a_file_in_the_place_of_a_socket_stays(tmp_path):
    path = tmp_path / "dra.sock"
    path.write_text("mine")
    with pytest.raises(SocketPathError, match="exists, but is not a socket; move the file away"):
        remove_stale_socket(path)
    assert path.read_text() == "mine"


def names(driver=SHORT, *, registry="/r", plugins="/p", pod_uid=""):
    return driver_socket_paths(driver, plugins=Path(plugins), registry=Path(registry), pod_uid=pod_uid)


def test_one_instance_has_the_names_that_everybody_knows():
    found = names()
    assert (str(found.dra), str(found.registration)) == ("/p/gpu.reserve.dra/dra.sock", "/r/gpu.reserve.dra-reg.sock")


def test_with_a_pod_uid_it_is_in_both_names():
    found = names(pod_uid="uid-1")
    assert (found.dra.name, found.registration.name) == ("dra-uid-1.sock", "gpu.reserve.dra-uid-1-reg.sock")


@pytest.mark.parametrize(
    ("driver", "length"),
    [
        pytest.param(SHORT, 60, id="hash-of-the-pod-uid"),
        pytest.param(LONG, 60, id="hash-of-the-driver-too"),
    ],
)
def test_names_that_are_too_long_are_hashed_and_still_told_apart(driver, length):
    folder = "/" + "f" * (length - 1)
    found = [names(driver, registry=folder, plugins="/p", pod_uid=uid) for uid in UIDS]
    for path in (path for each in found for path in (each.dra, each.registration)):
        assert len(os.fsencode(path)) <= MAX_SOCKET_PATH
        assert validate_socket_path(path, option="--registry") == path
    assert len({each.registration for each in found}) == len({each.dra for each in found}) == len(UIDS)
    assert names(driver, registry=folder, pod_uid=UIDS[0]) == found[0]  # the same each time


@pytest.mark.parametrize("pod_uid", ["../x", "a/b", "a b", "ä", "x" * 64, "a\0b"])
def test_what_is_no_pod_uid_is_refused(pod_uid):
    with pytest.raises(ValueError, match=r"not a valid uid; use metadata\.uid"):
        names(pod_uid=pod_uid)


@pytest.mark.parametrize("driver", ["../gpu", "GPU", "", "gpu/x", "g" * 64])
def test_what_is_no_driver_is_refused(driver):
    with pytest.raises(ValueError, match="not a DNS subdomain"):
        names(driver)


@pytest.mark.parametrize("room", [pytest.param(160, id="plain"), pytest.param(60, id="hashed")])
def test_sockets_of_other_instances_are_found_and_our_own_are_not_among_them(tmp_path, monkeypatch, room):
    monkeypatch.setattr(sockets, "MAX_SOCKET_PATH", len(os.fsencode(tmp_path)) + room)
    mine, other = (names(LONG, registry=tmp_path / "r", plugins=tmp_path / "p", pod_uid=uid) for uid in UIDS)
    for folder in (mine.folder, tmp_path / "r"):
        folder.mkdir(parents=True)
    for path in (mine.dra, mine.registration, other.dra, other.registration, tmp_path / "r" / "cpu-reg.sock"):
        path.touch()
    assert (LONG in mine.registration.name) == (room == 160)
    assert set(sibling_sockets(mine, LONG)) == {other.dra, other.registration}
