import asyncio
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubeletplugin.directory_lock import DirectoryLock, LockError


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_one_holder_at_a_time_in_order_of_arrival(tmp_path):
    lock, order = DirectoryLock(tmp_path), []

    async def turn(number):
        await lock.acquire(within=60)
        order.append(number)
        await asyncio.sleep(0)
        order.append(number)
        lock.release()

    await asyncio.gather(*(turn(n) for n in range(5)))
    assert order == [n for n in range(5) for _ in (1, 2)]


async def test_two_instances_exclude_each_other(tmp_path):
    one, other = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    await one.acquire(within=60)
    with pytest.raises(LockError):
        await other.acquire(within=0.01)
    waiting = asyncio.create_task(other.acquire(within=60))
    await asyncio.sleep(0.005)
    one.release()
    await waiting
    with pytest.raises(LockError):
        await one.acquire(within=0.01)
    other.release()


async def test_who_keeps_the_lock_is_told_truly(tmp_path):
    one, other = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    await one.acquire(within=60)
    waiting = [asyncio.create_task(lock.acquire(within=0.01)) for lock in (one, other, other)]
    texts = [str(await asyncio.gather(each, return_exceptions=True)) for each in waiting]
    assert f"an earlier call of this plugin still holds the lock of directory {tmp_path} after 0.01 s" in texts[0]
    for text in texts[1:]:  # the second of them waits for the first, which has it not
        assert f"another instance of the plugin holds the lock of directory {tmp_path}" in text
    one.release()


async def test_a_waiter_may_be_cancelled_and_leaves_nothing_behind(tmp_path):
    one, other = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    await one.acquire(within=60)
    before = open_files()
    waiting = asyncio.create_task(other.acquire(within=60))
    second = asyncio.create_task(other.acquire(within=60))
    await asyncio.sleep(0.005)
    waiting.cancel()
    second.cancel()
    await asyncio.gather(waiting, second, return_exceptions=True)
    assert open_files() == before
    one.release()
    await other.acquire(within=60)
    other.release()
    with pytest.raises(RuntimeError, match="not locked by this process"):
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
        with pytest.raises(LockError):
            await lock.acquire(within=0.01)
        process.kill()
    await lock.acquire(within=60)
    lock.release()


async def test_a_folder_that_is_gone_is_an_error_and_the_lock_is_usable_again(tmp_path):
    folder = tmp_path / "x"
    lock = DirectoryLock(folder)
    with pytest.raises(LockError, match=f"directory {folder}: cannot be locked: No such file or directory"):
        await lock.acquire(within=60)
    folder.mkdir()
    await lock.acquire(within=60)
    with pytest.raises(BlockingIOError):
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.release()
