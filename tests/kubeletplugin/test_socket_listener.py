"""A socket is there when it answers, is ours alone, and is taken away only by who made it."""

import stat

import pytest

from kubeletplugin.socket_listener import DirectoryMissingError, SocketListener, require_kubelet_directory
from kubeletplugin.sockets import SocketPathError


@pytest.fixture
async def listener(short_path):
    it = SocketListener(short_path / "own" / "dra.sock", option="--plugins", services=lambda _: None)
    yield it
    await it.close(grace=0)


async def test_the_socket_is_for_us_alone_and_no_draft_of_it_stays(listener):
    await listener.open()
    assert [path.name for path in listener.path.parent.iterdir()] == ["dra.sock"]
    assert stat.S_IMODE(listener.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(listener.path.parent.stat().st_mode) == 0o700
    assert not listener.lost


async def test_it_goes_with_its_listener(listener):
    await listener.open()
    await listener.close(grace=0)
    assert not listener.path.exists()
    assert listener.lost


async def test_a_file_that_somebody_put_in_its_place_stays(listener):
    await listener.open()
    listener.path.unlink()
    listener.path.write_text("somebody else's")
    assert listener.lost
    await listener.close(grace=0)
    assert listener.path.read_text() == "somebody else's"


async def test_who_listens_already_is_not_pushed_aside(listener):
    await listener.open()
    second = SocketListener(listener.path, option="--plugins", services=lambda _: None)
    with pytest.raises(SocketPathError, match="another process listens there"):
        await second.open()
    assert not listener.lost


async def test_a_path_that_is_too_long_names_the_option(short_path):
    with pytest.raises(SocketPathError, match="--plugins"):
        SocketListener(short_path / ("x" * 100), option="--plugins", services=lambda _: None)


def test_the_kubelets_folder_is_not_made_by_us(short_path):
    with pytest.raises(DirectoryMissingError, match="does not exist"):
        require_kubelet_directory(short_path / "registry")
    assert not (short_path / "registry").exists()
