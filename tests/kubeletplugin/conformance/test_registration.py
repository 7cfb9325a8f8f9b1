"""How the kubelet finds drivers and loses them: specs/dra-upstream.md §7, registration and rolling update."""

import asyncio
import logging
import shutil
import socket
import stat
import time

import grpc
import pytest

from dra.wire.registration import InfoRequest, RegistrationClient
from kubeletplugin.sockets import SocketPathError
from tests.kubeletplugin.driver import NAME, SmallDriver, device
from tests.kubeletplugin.kubelet import CALL_TIMEOUT, GET_INFO_TIMEOUT, until
from tests.kubeletplugin.node import until_async

OTHER = "cpu.example.com"


def uid(claim):
    return claim["metadata"]["uid"]


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


async def test_a_driver_says_who_it_is_and_where(node):
    async with node.registered() as kubelet:
        assert kubelet.socket == node.registry / f"{NAME}-reg.sock"
        assert kubelet.info.endpoint == str(node.plugins / NAME / "dra.sock")
        assert list(kubelet.info.supported_versions) == [
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        ]
        await until(lambda: not kubelet.application.not_ready_reasons(), saying="ready")


async def test_sockets_are_for_us_alone(node):
    async with node.registered():
        assert mode(node.registry / f"{NAME}-reg.sock") == 0o600
        assert mode(node.plugins / NAME / "dra.sock") == 0o600
        assert mode(node.plugins / NAME) == 0o700


async def test_the_dra_socket_is_there_before_the_registration_socket_and_after_it(node, monkeypatch):
    seen = []
    unlink = type(node.root).unlink

    def watched(path, *args, **kwargs):
        seen.append(path.name)
        return unlink(path, *args, **kwargs)

    async with node.plugin():
        await until((node.registry / f"{NAME}-reg.sock").exists, saying="registration")
        assert (node.plugins / NAME / "dra.sock").exists()
        monkeypatch.setattr(type(node.root), "unlink", watched)
    assert [name for name in seen if name.endswith(".sock")] == [f"{NAME}-reg.sock", "dra.sock"]
    assert list(node.registry.iterdir()) == []
    assert [path.name for path in (node.plugins / NAME).glob("*.sock")] == []


async def test_several_drivers_are_registered_each_for_itself(node):
    drivers = SmallDriver(), SmallDriver(name=OTHER)
    async with node.kubelet() as kubelet, node.plugin(*drivers) as application:
        first, second = await kubelet.register(NAME), await kubelet.register(OTHER)
        assert first.info.endpoint != second.info.endpoint
        await node.published(count=2)
        await until(lambda: application.not_ready_reasons() == [], saying="ready")


async def test_a_refusal_is_told_with_what_to_do(node, caplog):
    refusals = {
        "none of services supported by the plugin": "use a kubelet of 1.34 or newer",
        "endpoint /x already registered for DRA driver": "--pod-uid",
        "create gRPC connection to DRA driver: no such file": "mount the directory of --plugins into",
        "something else": "see the kubelet's log",
    }
    async with node.plugin() as application, node.kubelet() as kubelet:
        for error, remedy in refusals.items():
            await kubelet.register(NAME, error=error)
            (trouble,) = [t for t in application.not_ready_reasons() if "rejected by the kubelet" in t]
            assert error in trouble
            assert remedy in trouble
        assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == len(refusals)


async def test_the_kubelets_folder_is_waited_for(node, caplog):
    node.registry.rmdir()
    async with node.plugin(), node.kubelet() as kubelet:
        await until(lambda: "waiting for the kubelet to create it" in caplog.text, saying="it is told")
        assert not node.registry.exists()
        node.registry.mkdir()
        await kubelet.register(NAME)


async def test_a_registration_socket_that_was_removed_comes_back_at_once(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        await kubelet.prepare(claim)
        kubelet.socket.unlink()
        again = await kubelet.kubelet.register(NAME)
        assert (await again.prepare(claim))[uid(claim)][0].device_name == "gpu-0"
        assert mode(kubelet.socket) == 0o600


async def test_a_kubelet_whose_folders_were_wiped_finds_all_again(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        await kubelet.prepare(claim)
        shutil.rmtree(node.registry)
        (node.plugins / NAME / "dra.sock").unlink()
        await asyncio.sleep(0)
        node.registry.mkdir()
        again = await kubelet.kubelet.register(NAME)
        assert (await again.prepare(claim))[uid(claim)][0].device_name == "gpu-0"
        assert await again.unprepare(claim) == {uid(claim): ""}


async def test_who_it_is_is_told_within_a_second_while_many_claims_are_prepared(node):
    devices = [device(f"gpu-{i}") for i in range(200)]
    claims = [await node.claim(f"c{i}", f"gpu-{i}") for i in range(200)]
    waits = []
    async with node.registered(SmallDriver(*devices)) as kubelet:
        client = RegistrationClient(await kubelet.kubelet.dial(kubelet.socket))
        call = asyncio.create_task(kubelet.prepare(*claims))
        while not call.done():
            began = time.process_time()  # what others do on this machine is not the plugin's fault
            await client.get_info(InfoRequest(), timeout=CALL_TIMEOUT)
            waits.append(time.process_time() - began)
            await asyncio.sleep(0.02)
        assert all(isinstance(devices, list) for devices in (await call).values())
    assert waits
    assert max(waits) < GET_INFO_TIMEOUT


def _listens(path):
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


async def test_sockets_of_a_plugin_that_was_killed_are_replaced(node):
    (node.plugins / NAME).mkdir(mode=0o700)
    left = [node.registry / f"{NAME}-reg.sock", node.plugins / NAME / "dra.sock"]
    left += [node.registry / f"{NAME}-0a-reg.sock", node.plugins / NAME / "dra-0a.sock"]
    for path in left:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    async with node.kubelet() as kubelet, node.plugin() as application:
        await until(lambda: kubelet.sockets() == [left[0]], saying="sockets of others are removed")
        await until(lambda: _listens(left[0]), saying="its own socket is replaced")
        await kubelet.register(NAME)
        await until(lambda: application.runners[0].publisher.synced, saying="all is done")
        assert [path.name for path in (node.plugins / NAME).glob("*.sock")] == ["dra.sock"]


async def test_a_second_plugin_on_the_same_sockets_does_not_start(node):
    async with node.registered():
        with pytest.raises(BaseExceptionGroup) as refused:
            await node.application().run()
        (error,) = refused.value.exceptions
        assert isinstance(error, SocketPathError)
        assert "another process listens there; stop it" in str(error)
        assert (node.registry / f"{NAME}-reg.sock").exists()


async def test_in_a_rolling_update_no_prepare_fails(node):
    claims = [await node.claim(f"c{i}", f"gpu-{i}") for i in range(60)]
    devices = [device(f"gpu-{i}") for i in range(60)]
    left = iter(claims)
    answers = {}

    async def some(kubelet, count):
        for claim in (next(left) for _ in range(count)):
            answers.update(await kubelet.prepare(claim))

    async with node.kubelet() as kubelet:
        old_task = asyncio.create_task((old_app := node.application(SmallDriver(*devices), pod_uid="aa-1")).run())
        old = await kubelet.register(NAME)
        await some(old, 20)
        async with node.plugin(SmallDriver(*devices), pod_uid="bb-2"):
            new = await kubelet.register(NAME, among=[old.socket])
            assert new.info.endpoint != old.info.endpoint
            await asyncio.gather(some(old, 10), some(new, 10))
            old_task.cancel()
            await asyncio.gather(old_task, return_exceptions=True)
            assert kubelet.sockets() == [new.socket]
            await some(new, 20)
            assert all(isinstance(found, list) for found in answers.values()), answers
            assert len(answers) == 60
            held = await node.claim("late", "gpu-0")
            assert "is held by claim default/c0" in (await new.prepare(held))[uid(held)]
            assert set((await new.unprepare(*claims)).values()) == {""}
            assert node.cdi_files() == []
    assert old_app.runners[0].names.dra.name == "dra-aa-1.sock"


async def test_what_was_prepared_before_a_restart_is_given_again_and_taken_back(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        before = await kubelet.prepare(claim)
    assert len(node.cdi_files()) == 1
    async with node.registered() as kubelet:
        assert await kubelet.prepare(claim) == before
        assert await kubelet.unprepare(claim) == {uid(claim): ""}
    assert node.cdi_files() == []


async def test_a_restart_repairs_the_cdi_folder_before_the_kubelet_hears_of_it(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        await kubelet.prepare(claim)
    (file,) = node.cdi_files()
    orphan = node.cdi / file.replace(uid(claim), "0000-gone")
    (node.cdi / file).rename(orphan)
    async with node.registered():
        assert node.cdi_files() == [file]


async def test_a_checkpoint_that_cannot_be_read_is_told_to_every_pod_and_no_slices_are_published(node, caplog):
    claim, new = await node.claim("train", "gpu-0"), await node.claim("new", "gpu-1")
    async with node.registered() as kubelet:
        await kubelet.prepare(claim)
    whole = node.checkpoint().read_bytes()
    node.checkpoint().write_bytes(whole[: len(whole) // 2])
    for each in await node.user.list("resourceslices"):  # as a kubelet does at its start
        await node.user.delete("resourceslices", each["metadata"]["name"])
    async with node.registered() as kubelet:
        for error in ((await kubelet.prepare(new))[uid(new)], (await kubelet.unprepare(claim))[uid(claim)]):
            assert str(node.checkpoint()) in error
        assert any(str(node.checkpoint()) in trouble for trouble in kubelet.application.not_ready_reasons())
        assert len(node.cdi_files()) == 1
        assert await node.user.list("resourceslices") == []
        node.checkpoint().write_bytes(whole)
        await node.published()
        assert (await kubelet.prepare(new))[uid(new)][0].device_name == "gpu-1"
    assert "Until then no claim is prepared" in caplog.text


async def test_when_told_to_stop_calls_under_way_are_finished(node):
    driver = SmallDriver()
    claim = await node.claim("train", "gpu-0")
    async with node.kubelet() as kubelet:
        task = asyncio.create_task(node.application(driver).run())
        connection = await kubelet.register(NAME)
        driver.gate = asyncio.Event()
        call = asyncio.create_task(connection.prepare(claim))
        await until(lambda: ["default/train"] in driver.enforced, saying="the claim is on its way")
        task.cancel()
        await until(lambda: kubelet.sockets() == [], saying="the registration socket goes first")
        assert not task.done()
        driver.gate.set()
        assert (await call)[uid(claim)][0].device_name == "gpu-0"
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(grpc.RpcError):
            await connection.prepare(claim, within=1)


async def test_after_a_kubelets_wipe_slices_are_there_again(node):
    async with node.registered():
        (first,) = await node.published()
        await node.user.delete("resourceslices", first["metadata"]["name"])
        (second,) = await until_async(lambda: node.user.list("resourceslices"))
        assert second["metadata"]["name"] != first["metadata"]["name"]
        assert second["spec"]["devices"] == first["spec"]["devices"]
