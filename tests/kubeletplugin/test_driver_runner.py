"""One driver: in which order it begins and ends, and what it says meanwhile; the protocol is in conformance/."""

import asyncio
import logging
import re
import socket

import pytest

from kubeletplugin import driver_runner
from kubeletplugin.contract import PrepareError
from kubeletplugin.directory_lock import DirectoryLock
from tests.kubeletplugin.driver import NAME, SmallDriver
from tests.kubeletplugin.kubelet import until
from tests.kubeletplugin.node import temporary, until_async


@pytest.fixture
async def node():
    async with temporary() as found:
        yield found


class Telling(SmallDriver):
    """Notes what there was when it was asked to enforce, and that it was closed."""

    def __init__(self, node):
        super().__init__()
        self.node = node
        self.sockets = []
        self.closed = False
        self.stuck = ""

    async def enforce(self, preparations):
        found = [
            path.name for folder in (self.node.registry, self.node.plugins / NAME) for path in folder.glob("*.sock")
        ]
        self.sockets.append(found)
        await super().enforce(preparations)
        if self.stuck:
            raise PrepareError(self.stuck)

    async def close(self):
        self.closed = True


async def test_the_machine_is_in_line_before_anybody_can_call_and_the_driver_is_closed_at_the_end(node):
    driver = Telling(node)
    async with node.registered(driver):
        assert driver.sockets[0] == []
        assert not driver.closed
    assert driver.closed
    assert list(node.registry.iterdir()) == []


async def test_what_keeps_it_from_being_of_use_is_told_until_it_is(node):
    driver = SmallDriver()
    async with node.kubelet() as kubelet, node.plugin(driver) as application:
        await until(kubelet.sockets)
        assert f"driver {NAME}: the kubelet has not registered it yet" in application.not_ready_reasons()
        await kubelet.register(NAME)
        await until(lambda: not application.not_ready_reasons(), saying="ready")
        assert f'dra_reserve_plugin_published{{driver="{NAME}"}} 1.0' in application.render().decode()


async def test_devices_are_published_once_the_kubelet_would_let_pods_have_them(node, caplog):
    caplog.set_level(logging.INFO)
    async with node.kubelet() as kubelet, node.plugin(SmallDriver()):
        await until(kubelet.sockets)
        for _ in range(50):  # answers in which an early ResourceSlice would show
            assert await node.user.list("resourceslices") == []
        await kubelet.register(NAME)
        await node.published()
    said = [text for text in caplog.messages if "registered with" in text or "published ResourceSlices" in text]
    assert ["registered" in text for text in said] == [True, False]


async def test_how_many_devices_there_are_and_how_many_claims_have_is_counted(node):
    async with node.registered() as kubelet:
        claims = [await node.claim(name, device) for name, device in (("a", "gpu-0"), ("b", "gpu-1"))]
        await kubelet.prepare(*claims)
        assert counted(kubelet) == {"claims_prepared": 2.0, "devices": 2.0, "devices_held": 2.0}
        await kubelet.unprepare(claims[0])
        assert counted(kubelet) == {"claims_prepared": 1.0, "devices": 2.0, "devices_held": 1.0}


def counted(kubelet):
    text = kubelet.application.render().decode()
    found = re.findall(
        rf'^dra_reserve_plugin_(claims_prepared|devices|devices_held){{driver="{NAME}"}} (\S+)$', text, re.MULTILINE
    )
    return {name: float(value) for name, value in found}


async def test_a_driver_that_ails_serves_and_is_not_ready(node):
    driver = SmallDriver()
    async with node.registered(driver) as kubelet:
        claim = await node.claim("a", "gpu-0")
        await kubelet.prepare(claim)
        await until(lambda: not kubelet.application.not_ready_reasons())
        driver.degraded_reason = "no GPU is offered"
        assert kubelet.application.not_ready_reasons() == ["no GPU is offered"]
        assert await kubelet.unprepare(claim) == {claim["metadata"]["uid"]: ""}


async def test_what_impairs_a_driver_is_logged_once_with_an_event_on_the_node_and_so_is_its_end(
    node, monkeypatch, caplog
):
    monkeypatch.setattr(driver_runner, "ENFORCE_INTERVAL", 0.01)
    caplog.set_level(logging.INFO)
    driver = SmallDriver()
    driver.degraded_reason = "no GPU is offered"
    async with node.registered(driver) as kubelet:
        (event,) = await until_async(lambda: node.user.list("events"))
        looks = len(driver.enforced)
        await until(lambda: len(driver.enforced) > looks + 5)
        assert impaired(kubelet) == {"DriverImpaired"}
        driver.degraded_reason = ""
        await until(lambda: f"driver {NAME}: DriverImpaired is resolved" in caplog.text)
        assert impaired(kubelet) == set()
    assert (event["reason"], event["type"]) == ("DriverImpaired", "Warning")
    assert event["note"] == f"node n1: driver {NAME}: no GPU is offered"
    assert (event["regarding"]["kind"], event["regarding"]["name"], event["regarding"]["uid"]) == ("Node", "n1", "n1")
    assert caplog.text.count("no GPU is offered") == 1


class Losing(SmallDriver):
    """Tells what claims have lost."""

    lost: tuple[str, ...] = ()

    def claim_impairments(self):
        return self.lost


async def test_what_impairs_a_claim_is_told_once_each_time_it_begins_and_the_plugin_stays_ready(
    node, monkeypatch, caplog
):
    monkeypatch.setattr(driver_runner, "ENFORCE_INTERVAL", 0.01)
    driver = Losing()
    driver.lost = ("claim ml/a: CPU 3 is offline",)
    async with node.registered(driver) as kubelet:
        (event,) = await until_async(lambda: node.user.list("events"))
        looks = len(driver.enforced)
        await until(lambda: len(driver.enforced) > looks + 5)
        assert caplog.text.count("claim ml/a: CPU 3 is offline") == 1
        driver.lost = ()
        looks = len(driver.enforced)
        await until(lambda: len(driver.enforced) > looks + 5)
        driver.lost = ("claim ml/a: CPU 3 is offline",)
        await until(lambda: caplog.text.count("claim ml/a: CPU 3 is offline") == 2)
        assert impaired(kubelet) == set()
        await until(lambda: not kubelet.application.not_ready_reasons())
    assert (event["reason"], event["type"]) == ("ClaimImpaired", "Warning")
    assert event["note"] == "node n1: claim ml/a: CPU 3 is offline"


async def test_a_checkpoint_that_is_put_right_is_taken_without_a_restart(node, caplog):
    async with node.registered() as kubelet:
        claim = await node.claim("a", "gpu-0")
        await kubelet.prepare(claim)
    good = node.checkpoint().read_bytes()
    for slice_ in await node.user.list("resourceslices"):
        await node.user.request("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{slice_['metadata']['name']}")
    node.checkpoint().write_bytes(b"{")
    async with node.registered() as kubelet:
        assert "is damaged" in kubelet.application.not_ready_reasons()[0]
        assert await node.user.list("resourceslices") == []
        node.checkpoint().write_bytes(good)
        await node.published()
        await until(lambda: not kubelet.application.not_ready_reasons())
    assert caplog.text.count("Until then no claim is prepared, and the driver's ResourceSlices are withdrawn") == 1


class Upholding(SmallDriver):
    """Remembers by itself what it enforces."""

    upheld = 0
    fails = ""

    async def resume_enforcement(self):
        self.upheld += 1
        if self.fails:
            raise PrepareError(self.fails)


async def test_devices_are_withdrawn_and_what_was_enforced_is_upheld_while_the_checkpoint_cannot_be_read(node):
    async with node.registered() as kubelet:
        await kubelet.prepare(await node.claim("a", "gpu-0"))
        await node.published()
    good = node.checkpoint().read_bytes()
    node.checkpoint().write_bytes(b"{")
    driver = Upholding()
    async with node.registered(driver) as kubelet:
        assert driver.upheld
        assert driver.enforced == []
        await until_async(lambda: nothing_published(node))
        assert await kubelet.prepare(await node.claim("b", "gpu-1")) != {}
        assert impaired(kubelet) == {"NotRecovered"}
        node.checkpoint().write_bytes(good)
        await node.published()
        await until(lambda: not kubelet.application.not_ready_reasons())
        assert impaired(kubelet) == set()
        assert driver.enforced[-1] == ["default/a"]


async def test_a_checkpoint_that_is_damaged_while_the_plugin_runs_is_told_and_withdraws_the_devices(node, monkeypatch):
    monkeypatch.setattr(driver_runner, "ENFORCE_INTERVAL", 0.01)
    driver = Upholding()
    driver.fails = "no cgroups"
    async with node.registered(driver) as kubelet:
        await kubelet.prepare(await node.claim("a", "gpu-0"))
        await node.published()
        good = node.checkpoint().read_bytes()
        node.checkpoint().write_bytes(b"{")
        await until_async(lambda: nothing_published(node))
        assert impaired(kubelet) == {"NotRecovered", "NotEnforced"}
        assert "is damaged" in kubelet.application.not_ready_reasons()[0]
        node.checkpoint().write_bytes(good)
        await node.published()
        await until(lambda: not kubelet.application.not_ready_reasons())


async def nothing_published(node):
    return await node.user.list("resourceslices") == []


def impaired(kubelet):
    """The reasons for which the plugin's metrics say that the driver is of little use."""
    lines = kubelet.application.render().decode().splitlines()
    found = [line for line in lines if line.startswith("dra_reserve_plugin_impaired{") and line.endswith(" 1.0")]
    return {line.partition('reason="')[2].partition('"')[0] for line in found}


async def test_a_lock_that_somebody_keeps_is_waited_for(node, monkeypatch):
    monkeypatch.setattr("kubeletplugin.claim_preparer.LOCK_TIMEOUT", 0.05)
    (node.plugins / NAME).mkdir(mode=0o700)
    other = DirectoryLock(node.plugins / NAME)
    await other.acquire(within=60)
    async with node.registered() as kubelet:
        (text, *_) = kubelet.application.not_ready_reasons()
        assert f"another instance of the plugin holds the lock of directory {node.plugins / NAME}" in text
        other.release()
        await until(lambda: not kubelet.application.not_ready_reasons())


async def test_what_cannot_be_enforced_is_logged_when_it_begins_and_when_it_changes(node, monkeypatch, caplog):
    monkeypatch.setattr(driver_runner, "ENFORCE_INTERVAL", 0.01)
    driver = Telling(node)
    async with node.registered(driver):
        for text in ("no cgroups", "no CPUs"):
            driver.stuck = text
            looks = len(driver.enforced)
            await until(lambda looks=looks: len(driver.enforced) > looks + 5)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [f"driver {NAME}: no cgroups", f"driver {NAME}: no CPUs"]


async def test_a_change_of_the_driver_is_enforced_at_once(node, monkeypatch):
    monkeypatch.setattr(driver_runner, "ENFORCE_INTERVAL", 60)
    driver = SmallDriver()
    async with node.registered(driver) as kubelet:
        await until(lambda: not kubelet.application.not_ready_reasons())
        looks = len(driver.enforced)
        driver.tell()
        await until(lambda: len(driver.enforced) > looks)


async def test_sockets_of_instances_that_died_are_swept_and_those_of_the_living_stay(node):
    folder = node.plugins / NAME
    folder.mkdir(mode=0o700)
    dead, living = folder / "dra-dead.sock", folder / "dra-living.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(dead))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(living))
        listening.listen()
        async with node.registered(pod_uid="me"):
            assert not dead.exists()
            assert living.exists()


async def test_a_plugins_folder_that_is_a_file_ends_the_start(node):
    (node.plugins / NAME).write_text("no folder")
    with pytest.raises(BaseExceptionGroup) as failed:
        await asyncio.wait_for(node.application().run(), 10)
    assert failed.group_contains(FileExistsError)
