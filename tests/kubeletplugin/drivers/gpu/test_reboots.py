"""After a reboot, or a reload of NVIDIA's driver, a claim has its own card and files that exist, or is refused."""

import asyncio
import json
import threading
from unittest.mock import Mock, patch

import pytest

from kubeletplugin.contract import PrepareError
from kubeletplugin.drivers.gpu.device_names import DeviceNames
from tests.kubeletplugin.drivers.gpu.gpu_nodes import UNKNOWN_UUID, GpuNode, published, taints
from tests.kubeletplugin.drivers.gpu.test_driver import Failing, interval
from tests.kubeletplugin.fakes import result

A, B, C, D = "GPU-aaaa", "GPU-bbbb", "GPU-cccc", "GPU-dddd"
SLOTS = ("0000:17:00.0", "0000:65:00.0", "0000:b1:00.0", "0000:ca:00.0")


def cards(*uuids, slots=SLOTS):
    return dict(zip(slots, uuids, strict=False))


@pytest.fixture(params=["sysfs", "nvml"])
def machine(tmp_path, request):
    return GpuNode(tmp_path, cards=cards(A, B, C), inventory=request.param).boot()


async def prepared_again(machine, device, *, by_older_build=False, names=True, **reboot):
    """Prepare a claim, reboot, and return the claim and the answer to the kubelet's next call."""
    claim = machine.node.claims.allocate("train", device)
    first = machine.instance(machine.driver(names=names))
    await first.recover()
    assert not isinstance((await first.prepare([claim]))[claim.uid], PrepareError)
    if by_older_build:
        machine.forget_identities()
        (machine.node.own / "device-names.json").unlink()
    machine.boot(**reboot)
    after = machine.instance(machine.driver(names=names))
    await after.recover()
    return claim, (await after.prepare([claim]))[claim.uid]


HISTORIES = pytest.mark.parametrize(
    "history", [{}, {"by_older_build": True}, {"names": False}], ids=["this-build", "older-build", "names-lost"]
)


@HISTORIES
@pytest.mark.parametrize(
    ("device", "uuid", "reboot"),
    [
        pytest.param("gpu-1", B, {}, id="nothing-changed"),
        pytest.param("gpu-1", B, {"version": "575.20.2"}, id="another-driver-version"),
        pytest.param("gpu-1", B, {"hook": "usr/local/nvidia/toolkit/nvidia-cdi-hook"}, id="toolkit-moved"),
        pytest.param("gpu-1", B, {"hook": ""}, id="toolkit-gone"),
        pytest.param("gpu-1", B, {"cards": {SLOTS[1]: B, SLOTS[2]: C}}, id="a-card-died-and-minors-moved"),
        pytest.param("gpu-2", C, {"cards": {SLOTS[1]: B, SLOTS[2]: C}}, id="the-last-card"),
        pytest.param("gpu-0", A, {"cards": cards(C, B, A, slots=SLOTS[2::-1])}, id="another-order-of-probing"),
        pytest.param("gpu-1", B, {"cards": {SLOTS[0]: A, SLOTS[3]: B, SLOTS[2]: C}}, id="in-another-slot"),
        pytest.param("gpu-1", B, {"cards": {SLOTS[0]: D, SLOTS[1]: B, SLOTS[2]: C}}, id="another-card-was-swapped"),
        pytest.param("gpu-1", B, {"libraries": "run/opengl-driver/lib"}, id="libraries-moved"),
    ],
)
async def test_a_claim_has_its_own_card_and_files_that_exist(machine, device, uuid, reboot, history):
    claim, answer = await prepared_again(machine, device, **history, **reboot)
    assert not isinstance(answer, PrepareError), answer
    assert machine.given(machine.spec(claim)) == [uuid]
    assert machine.node.remembered[claim.uid] == answer


@HISTORIES
@pytest.mark.parametrize(
    ("device", "reboot", "reason"),
    [
        pytest.param(
            "gpu-0",
            {"cards": {SLOTS[1]: B, SLOTS[2]: C}},
            "device gpu-0 is not on node n1: it was prepared with GPU GPU-aaaa (present: ",
            id="its-card-died",
        ),
        pytest.param(
            "gpu-1",
            {"cards": cards(A, D, C)},
            "device gpu-1 is not on node n1: it was prepared with GPU GPU-bbbb (present: ",
            id="its-card-was-swapped",
        ),
        pytest.param("gpu-1", {"cards": {}}, "device gpu-1 is not on node n1", id="all-cards-died"),
        pytest.param(
            "gpu-1",
            {"cards": cards(A, UNKNOWN_UUID, C)},
            "device gpu-1 ",
            id="its-card-does-not-tell-its-uuid",
        ),
        pytest.param("gpu-1", {"cards": cards(B, B, C)}, "several GPUs report uuid GPU-bbbb", id="uuid-of-two-cards"),
        pytest.param(
            "gpu-1",
            {"library_version": "575.20.2"},
            "NVIDIA's kernel module is of version 570.10.1, but the libraries below / are of version 575.20.2",
            id="other-packages-than-the-module",
        ),
        pytest.param(
            "gpu-1", {"libraries": "opt/nvidia"}, "no libcuda.so.570.10.1 is below /", id="libraries-in-no-known-folder"
        ),
        pytest.param("gpu-1", {"nodes": ("nvidiactl",)}, "/dev/nvidia-uvm is missing", id="uvm-is-not-loaded"),
        pytest.param("gpu-1", {"version": ""}, "the version of NVIDIA's kernel module is not known", id="no-version"),
    ],
)
async def test_what_cannot_be_had_is_refused_with_the_way_out_and_no_file_is_left(
    machine, device, reboot, reason, history
):
    claim, answer = await prepared_again(machine, device, **history, **reboot)
    assert isinstance(answer, PrepareError), answer
    assert str(answer).startswith("claim ml/train")
    assert reason in str(answer)
    assert "recreate the pod" in str(answer)
    assert machine.spec(claim) is None
    assert set(machine.node.remembered) == {claim.uid}  # until the kubelet unprepares it


@pytest.mark.parametrize(
    ("cards_after", "uuid"),
    [
        pytest.param({SLOTS[1]: B, SLOTS[2]: C}, B, id="its-card-has-another-minor"),
        pytest.param(cards(A, D, C), None, id="its-card-was-swapped"),
    ],
)
async def test_a_claim_that_was_allocated_but_not_prepared_before_the_reboot_has_the_published_card(
    machine, cards_after, uuid
):
    before = machine.driver()
    await machine.instance(before).recover()
    assert published(before) == {"gpu-0": A, "gpu-1": B, "gpu-2": C}
    claim = machine.node.claims.allocate("train", "gpu-1")
    machine.boot(cards=cards_after)
    plugin = machine.instance()
    await plugin.recover()
    answer = (await plugin.prepare([claim]))[claim.uid]
    if uuid is None:
        assert "device gpu-1 is not on node n1 (present: gpu-0, gpu-2, gpu-3)" in str(answer)
        assert machine.spec(claim) is None
    else:
        assert machine.given(machine.spec(claim)) == [uuid]


async def test_the_name_of_a_dead_card_is_not_given_to_another(machine):
    await machine.instance().recover()
    for uuids in (cards(A, D, C), cards(D, C), cards(D, A, B)):
        machine.boot(cards=uuids)
        driver = machine.driver()
        await machine.instance(driver).recover()
        names = {A: "gpu-0", B: "gpu-1", C: "gpu-2", D: "gpu-3"}
        assert published(driver) == {names[uuid]: uuid for uuid in uuids.values()}


async def test_a_container_that_restarts_after_a_reload_gets_its_own_card_or_none(machine):
    driver = machine.driver()
    plugin = machine.instance(driver)
    claims = [machine.node.claims.allocate(name, device) for name, device in (("a", "gpu-0"), ("c", "gpu-2"))]
    await plugin.prepare(claims)
    machine.load(cards={SLOTS[1]: B, SLOTS[2]: C}, version="575.20.2")
    await plugin.reconcile()
    assert machine.spec(claims[0]) is None
    assert machine.given(machine.spec(claims[1])) == [C]
    machine.load(cards=cards(A, B, C))
    await plugin.reconcile()
    assert [machine.given(machine.spec(each)) for each in claims] == [[A], [C]]


async def test_a_device_node_that_comes_later_is_given_and_until_then_claims_are_refused_and_gpus_tainted(machine):
    machine.load(nodes=("nvidiactl",))
    driver = machine.driver()
    plugin = machine.instance(driver)
    await plugin.recover()
    claim = machine.node.claims.allocate("train", "gpu-0")
    assert "/dev/nvidia-uvm is missing" in str((await plugin.prepare([claim]))[claim.uid])
    assert taints(driver) == {f"gpu-{number}": ["no-driver-files"] for number in range(3)}
    assert {each.healthy for each in driver.health()} == {False}
    changes = driver.changes()
    machine.add_node("nvidia-uvm")
    await plugin.reconcile()
    assert await anext(changes) is None
    await changes.aclose()
    assert taints(driver) == {f"gpu-{number}": [] for number in range(3)}
    assert not isinstance((await plugin.prepare([claim]))[claim.uid], PrepareError)
    assert machine.given(machine.spec(claim)) == [A]


async def test_a_time_slice_goes_with_the_card(machine):
    claim = machine.node.claims.allocate("train", "gpu-1", configuration=(interval("Long"),))
    await machine.instance().prepare([claim])
    machine.boot(cards={SLOTS[1]: B, SLOTS[2]: C})
    driver = machine.driver(names=False)
    await machine.instance(driver).recover()
    assert driver._time_slicing.set == {B: "Long", C: "Default"}


async def test_a_card_that_another_claim_holds_by_an_earlier_name_is_not_given_twice(machine):
    """An older build names by minor: the card that it calls gpu-0 is gpu-1 here."""
    await machine.instance().recover()
    machine.boot(cards={SLOTS[1]: B, SLOTS[2]: C})
    older = machine.instance(machine.driver(names=False))
    first = machine.node.claims.allocate("first", "gpu-0")
    assert (await older.prepare([first]))[first.uid].devices[0].identity["uuid"] == B
    machine.forget_identities()
    plugin = machine.instance()
    await plugin.recover()
    second = machine.node.claims.allocate("second", "gpu-1")
    answer = (await plugin.prepare([second]))[second.uid]
    assert "device gpu-1 is GPU GPU-bbbb, which claim ml/first (uid uid-first) holds as gpu-0" in str(answer)
    assert machine.spec(second) is None
    watcher = machine.node.claims.allocate("watcher", result("gpu-1", admin=True))
    assert not isinstance((await plugin.prepare([watcher]))[watcher.uid], PrepareError)
    assert machine.given(machine.spec(watcher)) == [B]


async def test_a_claim_with_a_name_that_an_older_build_gave_to_another_card_is_refused(machine):
    await machine.instance().recover()
    machine.boot(cards={SLOTS[1]: B, SLOTS[0]: A, SLOTS[2]: C})
    older = machine.instance(machine.driver(names=False))
    claim = machine.node.claims.allocate("train", "gpu-0")
    await older.prepare([claim])
    machine.forget_identities()
    plugin = machine.instance()
    await plugin.recover()
    assert machine.spec(claim) is None
    answer = (await plugin.prepare([claim]))[claim.uid]
    assert "device gpu-0 was prepared with GPU GPU-bbbb, but is GPU GPU-aaaa now; recreate the pod" in str(answer)


async def test_a_reading_that_takes_too_long_is_a_refusal_and_counts_when_it_ends(machine, monkeypatch):
    monkeypatch.setattr("kubeletplugin.drivers.gpu.driver.REFRESH_TIMEOUT", 0.01)
    driver = machine.driver()
    plugin = machine.instance(driver)
    await plugin.recover()
    claim = machine.node.claims.allocate("train", "gpu-2")
    may_end, read = threading.Event(), driver._inventory.read
    monkeypatch.setattr(driver._inventory, "read", lambda: may_end.wait(30) and read())
    machine.load(cards={SLOTS[1]: B, SLOTS[2]: C})
    assert "the GPUs cannot be read: no answer for" in str((await plugin.prepare([claim]))[claim.uid])
    may_end.set()
    await asyncio.wait({driver._rereading}, timeout=30)  # the kubelet retries until then
    await plugin.prepare([claim])
    assert machine.given(machine.spec(claim)) == [C]


async def test_a_reading_that_fails_is_a_refusal(machine, monkeypatch):
    driver = machine.driver()
    plugin = machine.instance(driver)
    await plugin.recover()
    claim = machine.node.claims.allocate("train", "gpu-2")
    with monkeypatch.context() as broken:
        broken.setattr(driver._inventory, "read", Mock(side_effect=OSError("no such device")))
        machine.load(version="575.20.2")
        assert "the GPUs cannot be read: no such device" in str((await plugin.prepare([claim]))[claim.uid])
    await plugin.prepare([claim])
    assert machine.given(machine.spec(claim)) == [C]


async def test_names_that_cannot_be_recorded_are_not_published(machine, monkeypatch):
    driver = machine.driver()
    plugin = machine.instance(driver)
    await plugin.recover()
    machine.load(cards=cards(A, B, C, D))
    with monkeypatch.context() as full:
        full.setattr(DeviceNames, "_write", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(PrepareError, match=r"the names of GPUs cannot be recorded: .*No space left"):
            await plugin.reconcile()
        assert published(driver) == {"gpu-0": A, "gpu-1": B, "gpu-2": C}
    await plugin.reconcile()
    assert published(driver) == {"gpu-0": A, "gpu-1": B, "gpu-2": C, "gpu-3": D}


async def test_names_are_recorded_before_they_are_published_though_time_slices_fail(machine):
    claim = machine.node.claims.allocate("train", "gpu-1", configuration=(interval("Long"),))
    driver = machine.driver()
    driver._time_slicing = Failing()
    assert "lost" in str((await machine.instance(driver).prepare([claim]))[claim.uid])
    assert published(driver) == {"gpu-0": A, "gpu-1": B, "gpu-2": C}
    recorded = json.loads((machine.node.own / "device-names.json").read_text())["devices"]
    assert {each["name"]: each["uuid"] for each in recorded} == published(driver)


async def test_time_slices_are_set_again_after_a_reload(machine):
    claim = machine.node.claims.allocate("train", "gpu-1", configuration=(interval("Long"),))
    driver = machine.driver()
    plugin = machine.instance(driver)
    await plugin.prepare([claim])
    with patch.object(driver._time_slicing, "forget", wraps=driver._time_slicing.forget) as forget:
        await plugin.reconcile()
        assert forget.call_count == 0
        machine.load()
        await plugin.reconcile()
        assert forget.call_count == 1
    assert driver._time_slicing.set == {A: "Default", B: "Long", C: "Default"}


async def test_names_that_cannot_be_read_are_no_names_by_minor(machine):
    plugin = machine.instance()
    claim = machine.node.claims.allocate("train", "gpu-1")
    await plugin.prepare([claim])
    (machine.node.own / "device-names.json").write_text("{")
    driver = machine.driver()
    plugin = machine.instance(driver)
    await plugin.recover()
    assert published(driver) == {}
    assert "device-names.json: cannot be read" in driver.degraded_reason
    assert "device-names.json: cannot be read" in str((await plugin.prepare([claim]))[claim.uid])
    assert await plugin.unprepare([claim]) == {claim.uid: None}
