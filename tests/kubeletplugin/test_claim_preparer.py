import asyncio
import json
import logging
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pytest

import dra.api.parameters.opaque
from kubeletplugin import claim_preparer
from kubeletplugin.checkpoint import CheckpointError
from kubeletplugin.contract import NotEnforcedError, OpaqueParameters, PrepareError
from kubeletplugin.directory_lock import DirectoryLock
from tests.kubeletplugin.fakes import FakeDriver, FakeNode, claim, prepared, request, result


@pytest.fixture
def node(tmp_path):
    return FakeNode(tmp_path)


@pytest.fixture
def driver():
    return FakeDriver()


async def one(call, wanted):
    return (await call([wanted]))[wanted.uid]


def follow(advice):
    subprocess.run(["/bin/sh", "-ec", advice], check=True)


async def test_a_claim_gets_its_devices_and_is_remembered(node, driver):
    a = node.claims.allocate("a", "gpu-0")
    answer = await one(node.instance(driver=driver).prepare, a)
    assert answer == prepared(request("a", "gpu-0"))
    assert node.remembered == {a.uid: answer} == driver.enforced
    assert node.cdi.uids() == {a.uid}


@pytest.mark.parametrize("has_parameters", [True, False], ids=["with-parameters", "without"])
async def test_the_models_of_parameters_are_loaded_before_the_lock_and_only_if_a_claim_has_any(
    node, driver, monkeypatch, has_parameters
):
    monkeypatch.setattr(dra.api.parameters, "opaque", dra.api.parameters.opaque)  # restored with what follows
    monkeypatch.delitem(sys.modules, "dra.api.parameters.opaque")
    loaded = []
    monkeypatch.setattr(driver, "prepare", lambda asked, _: loaded.append(is_loaded()) or prepared(asked))
    configuration = (OpaqueParameters(requests=(), parameters=b"{}"),) if has_parameters else ()
    a = node.claims.allocate("a", "gpu-0", configuration=configuration)
    plugin = node.instance(driver=driver)
    monkeypatch.setattr(DirectoryLock, "acquire", recording(DirectoryLock.acquire, loaded))
    await plugin.prepare([a])
    assert loaded == [has_parameters, has_parameters]


def is_loaded():
    return "dra.api.parameters.opaque" in sys.modules


def recording(acquire, loaded):
    """Record whether the models are loaded when the lock is asked for."""

    async def recorded(lock, **options):
        loaded.append(is_loaded())
        await acquire(lock, **options)

    return recorded


async def test_a_second_call_gives_the_same_and_writes_the_file_anew(node, driver):
    plugin = node.instance(driver=driver)
    a = node.claims.allocate("a", "gpu-0")
    first = await one(plugin.prepare, a)
    node.cdi.path(a.uid).unlink()
    before, driver.enforced = node.checkpoint.stat(), None
    assert await one(plugin.prepare, a) == first
    assert node.cdi.uids() == {a.uid} == set(driver.enforced)
    assert node.checkpoint.stat() == before
    assert len(driver.others) == 1


async def test_unprepared_is_as_if_it_had_never_been(node, driver):
    plugin = node.instance(driver=driver)
    a = node.claims.allocate("a", "gpu-0")
    await plugin.prepare([a])
    del node.claims.requests[a.uid]  # it may be gone, nobody asks
    assert await plugin.unprepare([a]) == {a.uid: None}
    assert node.remembered == driver.enforced == {}
    assert not node.cdi.uids()
    b = node.claims.allocate("b", "gpu-0")
    assert await one(plugin.prepare, b) == prepared(request("b", "gpu-0"))


@pytest.mark.parametrize("uid", ["never-seen", "../../etc/passwd", ""])
async def test_unprepare_of_an_unknown_claim_is_fine(node, uid):
    assert await node.instance().unprepare([claim("x", uid)]) == {claim("x", uid).uid: None}
    assert not node.checkpoint.exists()


async def test_a_uid_that_leads_elsewhere_is_refused(node):
    answer = await one(node.instance().prepare, claim("x", "../x"))
    assert str(answer) == "claim ml/x (uid ../x): the uid cannot be part of a file name"


async def test_a_device_has_one_claim_and_the_refusal_names_both(node):
    plugin = node.instance()
    a, b = node.claims.allocate("a", "gpu-3"), node.claims.allocate("b", "gpu-3")
    await plugin.prepare([a])
    assert str(await one(plugin.prepare, b)) == (
        "claim ml/b (uid uid-b): device gpu.reserve.dra/n1/gpu-3 is held by claim ml/a (uid uid-a), "
        "refused to claim ml/b (uid uid-b); the pod starts when the pods of the other claim on this node have ended"
    )
    assert set(node.remembered) == {a.uid} == node.cdi.uids()


@pytest.mark.parametrize("together", [pytest.param(False, id="alone"), pytest.param(True, id="with-another-claim")])
async def test_a_claim_waits_a_moment_for_a_device_that_is_about_to_be_given_back(node, monkeypatch, together):
    monkeypatch.setattr(claim_preparer, "HANDOVER_TIMEOUT", 30.0)
    plugin = node.instance()
    a, b, c = (node.claims.allocate(name, gpu) for name, gpu in (("a", "gpu-3"), ("b", "gpu-3"), ("c", "gpu-4")))
    await plugin.prepare([a])
    waiting = asyncio.create_task(plugin.prepare([b, c] if together else [b]))
    while node.claims.reads < 2:  # noqa: ASYNC110 - a reader makes no event
        await asyncio.sleep(0)
    await plugin.reconcile()  # the lock is free meanwhile
    assert not waiting.done()
    assert await plugin.unprepare([a]) == {a.uid: None}
    answers = await asyncio.wait_for(waiting, 10)
    assert not any(isinstance(each, PrepareError) for each in answers.values())
    assert set(node.remembered) == set(answers)


async def test_what_is_not_given_back_is_refused_in_the_end_and_a_claim_that_is_gone_is_not_waited_for(
    node, monkeypatch
):
    monkeypatch.setattr(claim_preparer, "HANDOVER_TIMEOUT", 0.2)
    plugin = node.instance()
    a, b, c = (node.claims.allocate(name, gpu) for name, gpu in (("a", "gpu-3"), ("b", "gpu-3"), ("c", "gpu-4")))
    await plugin.prepare([a, c])
    waiting = asyncio.create_task(plugin.prepare([b]))
    while node.claims.reads < 2:  # noqa: ASYNC110 - a reader makes no event
        await asyncio.sleep(0)
    await plugin.unprepare([c])  # another device: it looks, and waits on
    assert "is held by claim ml/a" in str((await waiting)[b.uid])

    monkeypatch.setattr(claim_preparer, "HANDOVER_TIMEOUT", 30.0)
    waiting = asyncio.create_task(plugin.prepare([b]))
    reads = node.claims.reads
    while node.claims.reads == reads:  # noqa: ASYNC110 - a reader makes no event
        await asyncio.sleep(0)
    del node.claims.requests[b.uid]
    await plugin.unprepare([a])
    assert "is gone" in str((await asyncio.wait_for(waiting, 10))[b.uid])
    assert node.remembered == {}


async def test_another_pod_of_a_prepared_claim_is_refused_what_has_vanished(node, driver):
    driver.recheck = Mock(side_effect=PrepareError("claim ml/a: gpu-3 is not there"))
    plugin = node.instance(driver=driver)
    a = node.claims.allocate("a", "gpu-3")
    await plugin.prepare([a])
    assert str(await one(plugin.prepare, a)) == "claim ml/a: gpu-3 is not there"
    assert set(node.remembered) == {a.uid}
    assert await plugin.unprepare([a]) == {a.uid: None}


@pytest.mark.parametrize("recorded", [pytest.param(True, id="others-recorded"), pytest.param(False, id="none-yet")])
async def test_a_claim_is_recorded_though_a_call_before_ended_with_an_unexpected_error(node, monkeypatch, recorded):
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    plugin = node.instance()
    await plugin.recover()
    if recorded:
        await plugin.prepare([node.claims.allocate("other", "gpu-9")])
    with monkeypatch.context() as exhausted:
        exhausted.setattr(
            "kubeletplugin.worker_thread.WorkerThread.run", Mock(side_effect=RuntimeError("can't start thread"))
        )
        with pytest.raises(RuntimeError, match="can't start thread"):
            await plugin.prepare([a])
    assert not isinstance(await one(plugin.prepare, a), PrepareError)
    assert a.uid in node.remembered
    assert isinstance(await one(node.instance().prepare, b), PrepareError)


async def test_one_bad_claim_never_fails_the_others(node, driver, caplog):
    plugin = node.instance(driver=driver)
    names = ["good", "gone", "refused", "broken", "taken", "fine"]
    claims = {n: node.claims.allocate(n, "gpu-good" if n == "taken" else f"gpu-{n}") for n in names}
    del node.claims.requests[claims["gone"].uid]
    driver.refuses = {claims["refused"].uid: PrepareError("no"), claims["broken"].uid: KeyError("x")}
    answers = await plugin.prepare(claims.values())
    assert {n for n in names if isinstance(answers[claims[n].uid], PrepareError)} == {
        "gone",
        "refused",
        "broken",
        "taken",
    }
    assert "failed: KeyError('x'); see the plugin's log" in str(answers[claims["broken"].uid])
    assert set(node.remembered) == {claims["good"].uid, claims["fine"].uid} == node.cdi.uids()
    assert "claim ml/broken" in caplog.text


async def test_what_a_refused_claim_wanted_is_free(node, driver):
    plugin = node.instance(driver=driver)
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    driver.refuses = {a.uid: PrepareError("no")}
    await plugin.prepare([a])
    assert not isinstance(await one(plugin.prepare, b), PrepareError)


async def test_shares_of_a_device_coexist_and_admins_hold_nothing(node):
    plugin = node.instance()
    claims = [
        node.claims.allocate("a", result("gpu-0", share="x")),
        node.claims.allocate("b", result("gpu-0", share="y")),
        node.claims.allocate("admin", result("gpu-0", admin=True)),
        node.claims.allocate("c", result("gpu-0", share="x")),
        node.claims.allocate("d", "gpu-0"),
    ]
    answers = await plugin.prepare(claims)
    assert [isinstance(answers[c.uid], PrepareError) for c in claims] == [False, False, False, True, True]


async def test_a_hundred_claims_share_one_read_one_checkpoint_and_one_look(node, driver):
    steps = []
    plugin = node.instance(driver=driver, behind_step=steps.append)
    claims = [node.claims.allocate(f"c{n}", f"gpu-{n}") for n in range(100)]
    answers = await plugin.prepare([*claims, *claims])  # and twice each
    assert set(answers) == {c.uid for c in claims} == node.cdi.uids()
    assert (steps.count("checkpoint replaced"), node.claims.reads, driver.looks) == (1, 1, 1)
    assert [len(others) for others in driver.others] == list(range(100))
    steps.clear()
    assert set((await plugin.unprepare(claims)).values()) == {None}
    assert (steps.count("checkpoint replaced"), driver.looks, node.remembered) == (1, 2, {})


async def test_calls_that_wait_at_the_same_time_share_a_turn(node, driver):
    steps = []
    plugin = node.instance(driver=driver, behind_step=steps.append)
    claims = [node.claims.allocate(f"c{n}", f"gpu-{n % 30}") for n in range(40)]  # ten come too late
    answers = await asyncio.gather(*(one(plugin.prepare, c) for c in claims))
    assert sum(isinstance(answer, PrepareError) for answer in answers) == 10
    assert [a.claim for a in answers if not isinstance(a, PrepareError)] == claims[:30]
    assert steps.count("checkpoint replaced") == driver.looks == steps.count("hold devices") <= 2
    steps.clear()
    gone = await asyncio.gather(*(one(plugin.unprepare, c) for c in claims), plugin.reconcile())
    assert set(gone) == {None}
    assert steps.count("checkpoint replaced") <= 2
    assert node.remembered == driver.enforced == {}


async def test_a_claim_that_was_allocated_anew_waits_for_its_old_pods(node):
    plugin = node.instance()
    a = node.claims.allocate("a", "gpu-0")
    await plugin.prepare([a])
    node.claims.allocate("a", "gpu-1")
    assert str(await one(plugin.prepare, a)) == (
        "claim ml/a (uid uid-a): is prepared on this node with n1/gpu-0, but is now allocated n1/gpu-1; "
        "delete all its pods on this node, this pod included"
    )
    await plugin.unprepare([a])
    assert (await one(plugin.prepare, a)).devices[0].device == "gpu-1"


async def test_a_driver_must_answer_for_all_devices_of_the_claim(node, driver, caplog):
    driver.prepare = lambda asked, _: prepared(request("a", *asked.results[:1]))
    answer = await one(node.instance(driver=driver).prepare, node.claims.allocate("a", "gpu-0", "gpu-1"))
    assert "allocated [('n1', 'gpu-0', ''), ('n1', 'gpu-1', '')], prepared [('n1', 'gpu-0', '')]" in str(answer)
    assert caplog.records


async def test_what_cannot_be_enforced_is_refused_and_stays_held(node, driver):
    plugin = node.instance(driver=driver)
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    driver.stuck = PrepareError("node n1: the kubelet's CPU manager is static; set it to none")
    assert str(await one(plugin.prepare, a)) == f"{a}: {driver.stuck}"
    assert not node.cdi.uids()
    assert "is held by claim ml/a" in str(await one(plugin.prepare, b))
    driver.stuck = None
    assert not isinstance(await one(plugin.prepare, a), PrepareError)


async def test_a_pod_may_end_though_nothing_can_be_enforced(node, driver, caplog):
    plugin = node.instance(driver=driver)
    a = node.claims.allocate("a", "gpu-0")
    await plugin.prepare([a])
    driver.stuck = PrepareError("node n1: no cgroups")
    assert await plugin.unprepare([a]) == {a.uid: None}
    assert "node n1: no cgroups" in caplog.text


async def test_a_full_disk_is_named_and_changes_nothing(node, driver):
    def full(step):
        if step == "checkpoint drafted":
            raise OSError(28, "No space left on device")

    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    await node.instance().prepare([a])
    plugin = node.instance(driver=driver, behind_step=full)
    answers = await plugin.prepare([a, b])
    assert answers[a.uid] == prepared(request("a", "gpu-0"))
    assert str(answers[b.uid]) == (
        f"{b}: not prepared: checkpoint {node.checkpoint}: cannot be written: No space left on device; "
        "its content is unchanged. Free space on the file system, or mount it for writing; "
        "the next call retries"
    )
    assert set(node.remembered) == {a.uid} == node.cdi.uids() == set(driver.enforced)
    assert "No space left" in str(await one(plugin.unprepare, a))
    assert set(node.remembered) == {a.uid} == node.cdi.uids()
    later = node.claims.allocate("later", "gpu-1")  # b holds nothing
    assert not isinstance(await one(node.instance().prepare, later), PrepareError)


async def test_a_claim_that_cannot_be_enforced_does_not_keep_others_from_their_devices(node, driver):
    plugin = node.instance(driver=driver)
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    driver.stuck = NotEnforcedError({a.uid: "GPU gpu-0: lost"})
    answers = await plugin.prepare([a, b])
    assert str(answers[a.uid]) == f"{a}: GPU gpu-0: lost"
    assert answers[b.uid] == prepared(request("b", "gpu-1"))
    assert node.cdi.uids() == {b.uid}
    assert set(node.remembered) == {a.uid, b.uid}


async def test_a_cdi_folder_that_cannot_be_written_is_named(node):
    a = node.claims.allocate("a", "gpu-0")
    node.cdi.folder.write_text("no folder")
    plugin = node.instance()
    assert "its CDI spec cannot be written to" in str(await one(plugin.prepare, a))
    assert set(node.remembered) == {a.uid}
    node.cdi.folder.unlink()
    assert await one(plugin.prepare, a) == prepared(request("a", "gpu-0"))


async def test_a_damaged_checkpoint_refuses_everything_and_nothing_is_removed(node):
    a = node.claims.allocate("a", "gpu-0")
    await node.instance().prepare([a])
    node.checkpoint.write_bytes(node.checkpoint.read_bytes()[:-9])
    plugin = node.instance()
    for call in (plugin.prepare, plugin.unprepare):
        assert f"checkpoint {node.checkpoint} is damaged" in str(await one(call, a))
    with pytest.raises(Exception, match="is damaged"):
        await plugin.recover()
    assert node.cdi.uids() == {a.uid}


@pytest.mark.parametrize("gone", [["checkpoint.json"], ["checkpoint.json", "checkpoint.json.previous"]], ids=len)
async def test_a_checkpoint_that_is_removed_under_a_running_plugin_frees_no_device(node, gone):
    plugin = node.instance()
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    c = node.claims.allocate("c", "gpu-1")
    await plugin.prepare([a])
    await plugin.prepare([c])
    for name in gone:
        (node.own / name).unlink()
    assert f"is held by {a}" in str(await one(plugin.prepare, b))
    assert set(node.remembered) == {a.uid, c.uid}


async def test_recovery_writes_missing_files_removes_orphans_and_enforces(node, driver):
    first = node.instance()
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    await first.prepare([a, b])
    node.cdi.path(a.uid).unlink()
    orphan, draft = node.cdi.path("dead"), node.cdi.folder / ".gpu.reserve.dra-claim-dead.json.tmp"
    foreign = [node.cdi.folder / n for n in ("gpu.reserve.dra-claim-x-claim-y.json", "nvidia.yaml", ".x.json.tmp")]
    for path in (orphan, draft, *foreign):
        path.write_text("{}")
    await node.instance(driver=driver).recover()
    left = {path.name for path in node.cdi.folder.iterdir()}
    assert left == {path.name for path in (node.cdi.path(a.uid), node.cdi.path(b.uid), *foreign)}
    assert json.loads(node.cdi.path(a.uid).read_text())["kind"] == "gpu.reserve.dra/claim"
    assert set(driver.enforced) == {a.uid, b.uid}


async def test_cdi_files_without_a_checkpoint_mean_that_somebody_removed_it(node, driver):
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    await node.instance().prepare([a])
    shutil.rmtree(node.own)
    node.own.mkdir(mode=0o700)
    plugin = node.instance(driver=driver)
    with pytest.raises(CheckpointError, match=r"is missing, but .* has the CDI specs of 1 prepared claims"):
        await plugin.recover()
    assert node.cdi.uids() == {a.uid}, "it may be in use"
    refused = str(await one(plugin.prepare, b))
    await asyncio.to_thread(follow, refused.partition("stop the plugin, ")[2])
    await plugin.recover()
    assert await one(plugin.prepare, b) == prepared(request("b", "gpu-0"))


async def test_a_file_that_was_removed_is_put_back_by_the_next_look(node, driver, caplog):
    plugin = node.instance(driver=driver)
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    await plugin.prepare([a, b])
    node.cdi.path(a.uid).unlink()
    driver.enforced = None
    await plugin.reconcile()
    assert node.cdi.uids() == {a.uid, b.uid} == set(driver.enforced)
    assert [record.getMessage() for record in caplog.records] == [
        f"{a}: its CDI spec was missing and has been written again"
    ]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b""), id="truncated"),
        pytest.param(lambda path: path.write_bytes(b"x" * path.stat().st_size), id="overwritten"),
        pytest.param(lambda path: (path.unlink(), path.symlink_to("/dev/null")), id="a-link-elsewhere"),
    ],
)
async def test_a_file_that_was_damaged_is_written_anew_by_the_next_look(node, driver, caplog, damage):
    plugin = node.instance(driver=driver)
    a = node.claims.allocate("a", "gpu-0")
    await plugin.prepare([a])
    before = node.cdi.path(a.uid).read_bytes()
    damage(node.cdi.path(a.uid))
    await plugin.reconcile()
    assert node.cdi.path(a.uid).read_bytes() == before
    assert [record.getMessage() for record in caplog.records] == [
        f"{a}: its CDI spec was damaged and has been written again"
    ]


async def test_a_file_that_another_instance_has_written_alike_stays(node, caplog):
    plugin, other = node.instance(), node.instance()
    a = node.claims.allocate("a", "gpu-0")
    await plugin.prepare([a])
    await other.prepare([a])
    inode = node.cdi.path(a.uid).stat().st_ino
    await plugin.reconcile()
    await plugin.reconcile()
    assert (node.cdi.path(a.uid).stat().st_ino, caplog.records) == (inode, [])


async def test_recovery_goes_on_when_nothing_can_be_enforced(node, driver, caplog):
    driver.stuck = PrepareError("node n1: no cgroups")
    with caplog.at_level(logging.WARNING):
        await node.instance(driver=driver).recover()
    assert "node n1: no cgroups" in caplog.text
    with pytest.raises(PrepareError, match="no cgroups"):
        await node.instance(driver=driver).reconcile()


async def test_two_instances_see_what_the_other_did(node):
    old, new = node.instance(), node.instance()
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    await old.recover()
    await new.recover()
    await old.prepare([a])
    assert "is held by claim ml/a" in str(await one(new.prepare, b))
    await new.unprepare([a])
    assert not isinstance(await one(old.prepare, b), PrepareError)
    assert set(node.remembered) == {b.uid} == node.cdi.uids()


async def test_an_instance_that_keeps_the_lock_is_named(node, monkeypatch):
    monkeypatch.setattr("kubeletplugin.claim_preparer.LOCK_TIMEOUT", 0.01)
    a = node.claims.allocate("a", "gpu-0")
    other = DirectoryLock(node.own)
    await other.acquire(within=60)
    assert str(await one(node.instance().prepare, a)) == (
        f"claim ml/a (uid uid-a): another instance of the plugin holds the lock of directory {node.own}; "
        "the kubelet retries"
    )
    other.release()
    assert not isinstance(await one(node.instance().prepare, a), PrepareError)


async def test_a_call_that_waits_for_one_of_our_own_blames_nobody_else(node, driver, monkeypatch):
    monkeypatch.setattr("kubeletplugin.claim_preparer.LOCK_TIMEOUT", 0.01)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_):
        entered.set()
        await go_on.wait()

    driver.enforce = slow
    plugin = node.instance(driver=driver)
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    first = asyncio.create_task(one(plugin.prepare, a))
    await entered.wait()
    text = str(await one(plugin.prepare, b))
    assert text.startswith(
        f"{b}: an earlier call of this plugin still holds the lock of directory {node.own} after 0.01 s"
    )
    assert text.endswith("; the kubelet retries")
    go_on.set()
    assert not isinstance(await first, PrepareError)


async def test_a_caller_who_gives_up_leaves_a_call_that_comes_to_its_end(node, driver):
    entered, go_on = asyncio.Event(), asyncio.Event()
    enforce = driver.enforce

    async def slow(preparations):
        entered.set()
        await go_on.wait()
        await enforce(preparations)

    driver.enforce = slow
    plugin = node.instance(driver=driver)
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-1")
    call = asyncio.create_task(plugin.prepare([a]))
    await entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    c = node.claims.allocate("c", "gpu-2")
    waiting = [asyncio.create_task(plugin.prepare([each])) for each in (b, c)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # this one had not begun
    await asyncio.sleep(0)
    go_on.set()
    assert (await waiting[1])[c.uid].claim == c
    await plugin.wait_idle()
    assert set(node.remembered) == {a.uid, c.uid} == node.cdi.uids()
    assert not isinstance(await one(plugin.prepare, b), PrepareError)
