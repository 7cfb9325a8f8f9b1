"""Claims that are prepared already: their devices have other edits than before, or are gone."""

import json
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from kubeletplugin.checkpoint import Checkpoint, CheckpointError
from kubeletplugin.contract import ContainerEdits, PrepareError
from tests.kubeletplugin.fakes import FakeDriver, FakeNode, prepared, request


@pytest.fixture
def node(tmp_path):
    return FakeNode(tmp_path)


async def one(call, wanted):
    return (await call([wanted]))[wanted.uid]


class Changing(FakeDriver):
    """A driver whose devices have other edits than before, or are gone."""

    def __init__(self, path="/dev/new"):
        super().__init__()
        self.path = path
        self.gone = set()
        self.unknown = None

    async def refresh(self):
        if self.unknown is not None:
            raise self.unknown

    def recheck(self, preparation):
        devices = []
        for each in preparation.devices:
            if each.device in self.gone:
                raise PrepareError(f"{preparation.claim}: {each.device} is gone")
            devices.append(replace(each, edits=ContainerEdits(env=(f"AT={self.path}",))))
        return replace(preparation, devices=tuple(devices))


def variables(node, wanted):
    path = node.cdi.path(wanted.uid)
    return json.loads(path.read_text())["devices"][0]["containerEdits"]["env"] if path.exists() else None


@pytest.mark.parametrize("call", ["prepare", "recover", "reconcile"])
async def test_a_prepared_claim_gets_the_edits_of_its_devices_as_they_are_now(node, call):
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    await node.instance().prepare([a, b])
    driver = Changing()
    driver.gone.add("gpu-1")
    plugin = node.instance(driver=driver)
    answers = await plugin.prepare([a, b]) if call == "prepare" else await getattr(plugin, call)()
    if answers is not None:
        assert answers[a.uid] == node.remembered[a.uid]
        assert str(answers[b.uid]) == "claim ml/b (uid uid-b): gpu-1 is gone"
    assert (variables(node, a), variables(node, b)) == (["AT=/dev/new"], None)
    assert [each.edits.env for each in node.remembered[a.uid].devices] == [("AT=/dev/new",)]
    assert set(node.remembered) == set(driver.enforced) == {a.uid, b.uid}  # until it is unprepared, it holds gpu-1
    driver.gone.clear()
    await plugin.reconcile()
    assert variables(node, b) == ["AT=/dev/new"]


async def test_nothing_is_written_while_nothing_changes(node):
    driver = Changing()
    plugin = node.instance(driver=driver)
    a = node.claims.allocate("a", "gpu-0")
    await plugin.prepare([a])
    await plugin.reconcile()
    before = node.checkpoint.stat(), node.cdi.path(a.uid).stat()
    await plugin.reconcile()
    assert (node.checkpoint.stat(), node.cdi.path(a.uid).stat()) == before


@pytest.mark.parametrize("call", ["prepare", "recover", "reconcile"])
async def test_while_nobody_can_tell_what_devices_are_no_container_starts_with_them(node, call):
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    await node.instance().prepare([a])
    driver = Changing()
    plugin = node.instance(driver=driver)
    driver.unknown = PrepareError("node n1: the GPUs cannot be read")
    if call == "prepare":
        answers = await plugin.prepare([a, b])
        assert [str(answers[each.uid]) for each in (a, b)] == [
            f"{each}: node n1: the GPUs cannot be read" for each in (a, b)
        ]
        assert set(node.remembered) == {a.uid}
    else:
        await getattr(plugin, call)()
        assert variables(node, a) is None
    driver.unknown = None
    await plugin.reconcile()
    assert variables(node, a) == ["AT=/dev/new"]


@pytest.mark.parametrize("call", ["prepare", "recover", "reconcile"])
async def test_a_look_at_the_devices_that_fails_unexpectedly_refuses_each_claim(node, call):
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    await node.instance().prepare([a])
    driver = Changing()
    plugin = node.instance(driver=driver)
    driver.unknown = OSError("no such device")
    if call == "prepare":
        refusals = {str(refusal) for refusal in (await plugin.prepare([a, b])).values()}
        failed = "driver gpu.reserve.dra failed: OSError('no such device'); see the plugin's log"
        assert refusals == {f"{claim}: {failed}" for claim in (a, b)}
    else:
        await getattr(plugin, call)()
        assert variables(node, a) is None
    driver.unknown = None
    await plugin.reconcile()
    assert variables(node, a) == ["AT=/dev/new"]


async def test_a_recheck_that_fails_unexpectedly_or_gives_other_devices_is_a_refusal(node, caplog):
    a = node.claims.allocate("a", "gpu-0")
    await node.instance().prepare([a])
    driver = Changing()
    plugin = node.instance(driver=driver)
    for flaw in (Mock(side_effect=KeyError("x")), Mock(return_value=prepared(request("a", "gpu-1")))):
        driver.recheck = flaw
        assert "driver gpu.reserve.dra failed: " in str(await one(plugin.prepare, a))
        assert variables(node, a) is None
    assert "claim ml/a" in caplog.text


async def test_changed_edits_are_used_even_if_they_cannot_be_recorded(node, monkeypatch):
    a = node.claims.allocate("a", "gpu-0")
    await node.instance().prepare([a])
    before = node.remembered
    monkeypatch.setattr(Checkpoint, "write", Mock(side_effect=CheckpointError("disk full")))
    for call in ("prepare", "recover", "reconcile"):
        plugin = node.instance(driver=Changing(path=f"/dev/{call}"))
        answer = await one(plugin.prepare, a) if call == "prepare" else await getattr(plugin, call)()
        assert not isinstance(answer, PrepareError)
        assert variables(node, a) == [f"AT=/dev/{call}"]
    assert node.remembered == before


async def test_an_unprepare_that_cannot_be_recorded_brings_back_no_spec_of_what_is_gone(node, monkeypatch):
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    driver = Changing()
    plugin = node.instance(driver=driver)
    await plugin.prepare([a, b])
    driver.gone.add("gpu-1")
    monkeypatch.setattr(Checkpoint, "write", Mock(side_effect=CheckpointError("disk full")))
    assert all(isinstance(each, PrepareError) for each in (await plugin.unprepare([a, b])).values())
    assert (variables(node, a), variables(node, b)) == (["AT=/dev/new"], None)


async def test_an_unprepare_whose_record_is_replaced_and_not_synced_brings_back_no_spec(node):
    def fail(step):
        if armed and step == "checkpoint replaced":
            raise OSError(5, "Input/output error")

    armed = []
    a = node.claims.allocate("a", "gpu-0")
    plugin = node.instance(behind_step=fail)
    await plugin.prepare([a])
    armed.append(True)
    assert "Input/output error" in str(await one(plugin.unprepare, a))
    assert (set(node.remembered), node.cdi.uids()) == (set(), set())
    armed.clear()
    assert await one(plugin.unprepare, a) is None


async def test_changed_edits_that_cannot_be_written_leave_no_old_ones_and_are_written_later(node):
    def full(step):
        if armed and step == "cdi drafted":
            raise OSError(28, "No space left on device")

    armed = []
    driver = Changing(path="/dev/old")
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    plugin = node.instance(driver=driver, behind_step=full)
    await plugin.prepare([a, b])
    await plugin.reconcile()
    armed.append(True)
    assert "No space left" in str(await one(plugin.prepare, b))
    assert variables(node, b) == ["AT=/dev/old"]  # which is what it has now
    driver.path = "/dev/new"
    await plugin.reconcile()
    assert variables(node, a) is None
    armed.clear()
    await plugin.reconcile()
    assert variables(node, a) == variables(node, b) == ["AT=/dev/new"]
