import asyncio
import fcntl
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kubeletplugin.sockets import (
    DirectoryLock,
    SocketPathError,
    ensure_private_directory,
    remove_stale_socket,
    validate_socket_path,
)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


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
        f"socket {too_long}: the path has {length} bytes, unix sockets have 107 at most; "
        "give a folder with a shorter path to --plugins"
    )


def test_a_socket_path_is_absolute(tmp_path):
    with pytest.raises(SocketPathError, match=r"socket x/dra\.sock: not an absolute path, .* change --plugins"):
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
    with pytest.raises(SocketPathError, match="there is something that is no socket; move it away"):
        remove_stale_socket(path)
    assert path.read_text() == "mine"


async def test_one_holder_at_a_time_in_order_of_arrival(tmp_path):
    lock, order = DirectoryLock(tmp_path), []

    async def turn(number):
        await lock.acquire(within=5)
        order.append(number)
        await asyncio.sleep(0)
        order.append(number)
        lock.release()

    await asyncio.gather(*(turn(n) for n in range(5)))
    assert order == [n for n in range(5) for _ in (1, 2)]


async def test_two_instances_exclude_each_other(tmp_path):
    one, other = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    await one.acquire(within=1)
    with pytest.raises(TimeoutError):
        await other.acquire(within=0.01)
    waiting = asyncio.create_task(other.acquire(within=5))
    await asyncio.sleep(0.005)
    one.release()
    await waiting
    with pytest.raises(TimeoutError):
        await one.acquire(within=0.01)
    other.release()


async def test_who_keeps_the_lock_is_told_truly(tmp_path):
    one, other = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    await one.acquire(within=1)
    waiting = [asyncio.create_task(lock.acquire(within=0.01)) for lock in (one, other, other)]
    texts = [str(await asyncio.gather(each, return_exceptions=True)) for each in waiting]
    assert f"an earlier call of this plugin is still at work in {tmp_path} after 0.01 s" in texts[0]
    for text in texts[1:]:  # the second of them waits for the first, which has it not
        assert f"another instance of the plugin keeps {tmp_path} locked" in text
    one.release()


async def test_a_waiter_may_be_cancelled_and_leaves_nothing_behind(tmp_path):
    one, other = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    await one.acquire(within=1)
    before = open_files()
    waiting = asyncio.create_task(other.acquire(within=5))
    second = asyncio.create_task(other.acquire(within=5))
    await asyncio.sleep(0.005)
    waiting.cancel()
    second.cancel()
    await asyncio.gather(waiting, second, return_exceptions=True)
    assert open_files() == before
    one.release()
    await other.acquire(within=1)
    other.release()
    with pytest.raises(RuntimeError, match="not locked by us"):
        other.release()


async def test_the_kernel_gives_back_what_a_killed_process_held(tmp_path):
    holder = (
        "import fcntl, os, sys, time\n"
        "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs
        [sys.executable, "-S", "-c", holder, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        lock = DirectoryLock(tmp_path)
        with pytest.raises(TimeoutError):
            await lock.acquire(within=0.01)
        process.kill()
    await lock.acquire(within=5)
    lock.release()


async def test_a_folder_that_is_gone_is_an_error_and_the_lock_is_usable_again(tmp_path):
    folder = tmp_path / "x"
    lock = DirectoryLock(folder)
    with pytest.raises(FileNotFoundError):
        await lock.acquire(within=1)
    folder.mkdir()
    await lock.acquire(within=1)
    with pytest.raises(BlockingIOError):
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.release()
