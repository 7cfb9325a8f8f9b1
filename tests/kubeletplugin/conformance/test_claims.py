"""NodePrepareResources and NodeUnprepareResources: specs/dra-upstream.md §7, rule by rule."""

import asyncio
import json

import grpc
import pytest

from dra.wire import plugin
from dra.wire.plugin import Claim
from tests.kubeletplugin.driver import NAME, SmallDriver, device
from tests.kubeletplugin.kubelet import until

MANY = 100


def many_devices(count=MANY):
    return SmallDriver(*(device(f"gpu-{i}") for i in range(count)))


def uid(claim):
    return claim["metadata"]["uid"]


async def test_a_claim_is_prepared_and_its_devices_are_named_with_unique_cdi_ids(node):
    claim = await node.claim("train", "gpu-0", "gpu-1")
    async with node.registered() as kubelet:
        devices = (await kubelet.prepare(claim))[uid(claim)]
        assert [(d.pool_name, d.device_name, list(d.request_names)) for d in devices] == [
            ("n1", "gpu-0", ["r"]),
            ("n1", "gpu-1", ["r"]),
        ]
        ids = [i for d in devices for i in d.cdi_device_ids]
        assert len(set(ids)) == 2
        assert all(i.startswith(f"{NAME}/claim={uid(claim)}-") for i in ids)
        (file,) = node.cdi_files()
        document = json.loads((node.cdi / file).read_text())
        assert {f"{document['kind']}={d['name']}" for d in document["devices"]} == set(ids)
        assert await kubelet.unprepare(claim) == {uid(claim): ""}
        assert node.cdi_files() == []


@pytest.mark.parametrize("version", list(plugin.DraPluginVersion))
async def test_both_versions_of_the_service_do_the_same(node, version):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        (found,) = (await kubelet.prepare(claim, version=version))[uid(claim)]
        assert found.device_name == "gpu-0"
        assert await kubelet.unprepare(claim, version=version) == {uid(claim): ""}


async def test_both_calls_may_come_again(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        assert await kubelet.prepare(claim) == await kubelet.prepare(claim)
        assert await kubelet.unprepare(claim) == await kubelet.unprepare(claim) == {uid(claim): ""}


async def test_a_cdi_file_that_was_lost_is_written_again_by_the_next_prepare(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        await kubelet.prepare(claim)
        (file,) = node.cdi_files()
        (node.cdi / file).unlink()
        await kubelet.prepare(claim)
        assert node.cdi_files() == [file]


async def test_a_claim_with_another_uid_is_refused(node):
    claim = await node.claim("train", "gpu-0")
    claim["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    async with node.registered() as kubelet:
        error = (await kubelet.prepare(claim))[uid(claim)]
        assert "another claim has its name" in error
        assert node.cdi_files() == []


@pytest.mark.parametrize(
    ("results", "allocated", "text"),
    [
        pytest.param((), False, "is not allocated", id="not-allocated"),
        pytest.param(
            ({"device": "gpu-0", "driver": "other.example.com"},), True, "has no device of driver", id="other"
        ),
        pytest.param(
            ({"device": "gpu-0", "pool": "n2"},), True, "in pool n2, but this node has pool n1", id="another-node"
        ),
    ],
)
async def test_a_claim_that_is_not_ours_is_refused_with_a_reason(node, results, allocated, text):
    claim = await node.claim("train", *results, allocated=allocated)
    async with node.registered() as kubelet:
        assert text in (await kubelet.prepare(claim))[uid(claim)]


async def test_one_bad_claim_does_not_fail_the_others(node):
    good, bad = await node.claim("good", "gpu-0"), await node.claim("bad", "gpu-1")
    driver = SmallDriver()
    driver.refuses["bad"] = "not today"
    async with node.registered(driver) as kubelet:
        answers = await kubelet.prepare(bad, good, Claim(namespace="default", name="none", uid="u-1"))
        assert answers[uid(good)][0].device_name == "gpu-0"
        assert "not today" in answers[uid(bad)]
        assert "does not exist" in answers["u-1"]
        await kubelet.unprepare(good)
        assert await kubelet.prepare(bad) == {uid(bad): answers[uid(bad)]}


async def test_a_driver_that_breaks_fails_the_claim_and_not_the_call(node, monkeypatch):
    driver = SmallDriver()
    claim = await node.claim("train", "gpu-0")
    async with node.registered(driver) as kubelet:
        monkeypatch.setattr(driver, "prepare", lambda *_: 1 / 0)
        assert "ZeroDivisionError" in (await kubelet.prepare(claim))[uid(claim)]
        monkeypatch.undo()
        assert (await kubelet.prepare(claim))[uid(claim)][0].device_name == "gpu-0"


async def test_a_device_of_one_claim_is_refused_to_another(node):
    first, second = await node.claim("first", "gpu-0"), await node.claim("second", "gpu-0")
    async with node.registered() as kubelet:
        await kubelet.prepare(first)
        error = (await kubelet.prepare(second))[uid(second)]
        assert "is held by claim default/first" in error
        assert "refused to claim default/second" in error
        await kubelet.unprepare(first)
        assert (await kubelet.prepare(second))[uid(second)][0].device_name == "gpu-0"


async def test_two_claims_on_one_device_in_one_call_get_it_once(node):
    claims = [await node.claim(f"c{i}", "gpu-0") for i in range(2)]
    async with node.registered() as kubelet:
        answers = await kubelet.prepare(*claims)
    assert sorted(isinstance(answer, str) for answer in answers.values()) == [False, True]


async def test_a_claim_named_twice_in_a_call_has_one_answer(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        assert list(await kubelet.prepare(claim, claim)) == [uid(claim)]
        assert await kubelet.unprepare(claim, claim) == {uid(claim): ""}


async def test_two_claims_of_one_uid_are_both_refused(node):
    claim, other = await node.claim("train", "gpu-0"), await node.claim("other", "gpu-1")
    other["metadata"]["uid"] = uid(claim)
    async with node.registered() as kubelet:
        assert "the same call has another claim with this uid" in (await kubelet.prepare(claim, other))[uid(claim)]


async def test_a_hundred_claims_in_a_call(node):
    claims = [await node.claim(f"c{i}", f"gpu-{i}") for i in range(MANY)]
    async with node.registered(many_devices()) as kubelet:
        answers = await kubelet.prepare(*claims)
        assert [answers[uid(claim)][0].device_name for claim in claims] == [f"gpu-{i}" for i in range(MANY)]
        assert len(node.cdi_files()) == MANY
        assert set((await kubelet.unprepare(*claims)).values()) == {""}
        assert node.cdi_files() == []


async def test_many_calls_at_once_are_all_answered(node):
    claims = [await node.claim(f"c{i}", f"gpu-{i}") for i in range(MANY)]
    async with node.registered(many_devices()) as kubelet:
        answers = await asyncio.gather(*(kubelet.prepare(claim) for claim in claims))
        assert all(isinstance(found, list) for answer in answers for found in answer.values())
        assert node.remembered() >= {uid(claim) for claim in claims}


async def test_subrequests_are_told_by_the_name_of_their_request(node):
    claim = await node.claim("train", {"request": "gpus/big", "device": "gpu-0"})
    async with node.registered() as kubelet:
        (found,) = (await kubelet.prepare(claim))[uid(claim)]
    assert list(found.request_names) == ["gpus"]


async def test_shares_are_told(node):
    share = "9d5e2a4e-0000-4000-8000-000000000001"
    claim = await node.claim("train", {"device": "gpu-0", "shareID": share})
    async with node.registered() as kubelet:
        (found,) = (await kubelet.prepare(claim))[uid(claim)]
    assert found.share_id == share


async def test_a_call_without_claims_is_fine(node):
    async with node.registered() as kubelet:
        assert await kubelet.prepare() == {}
        assert await kubelet.unprepare() == {}


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(Claim(namespace="default", name="gone", uid="unknown"), id="unknown"),
        pytest.param(Claim(namespace="d" * 10**6, name="n" * 10**6, uid="u"), id="huge-names"),
        pytest.param(Claim(namespace="default", name="n", uid="u" * 10**6), id="huge-uid"),
        pytest.param(Claim(namespace="default", name="../../x", uid="../../etc/passwd"), id="paths"),
        pytest.param(Claim(namespace="default", name="n\0", uid="u\0"), id="zeros"),
        pytest.param(Claim(), id="nothing"),
    ],
)
async def test_what_is_no_claim_is_refused_shortly_and_unprepared_gladly(node, claim):
    async with node.registered() as kubelet:
        (error,) = (await kubelet.prepare(claim)).values()
        assert isinstance(error, str)
        assert 0 < len(error) <= 1024
        assert await kubelet.unprepare(claim) == {claim.uid: ""}
        assert node.cdi_files() == []


async def test_an_unprepare_needs_neither_the_claim_nor_an_api_server(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        await kubelet.prepare(claim)

        async def away(request):
            raise AssertionError(request)

        node.server.handle = away
        assert await kubelet.unprepare(claim) == {uid(claim): ""}
        assert node.cdi_files() == []


async def test_bytes_that_are_no_message_fail_their_call_alone(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as kubelet:
        call = kubelet.channel.unary_unary(f"/{plugin.SERVICES[plugin.DraPluginVersion.V1]}/NodePrepareResources")
        with pytest.raises(grpc.RpcError):
            await call(b"\xff\xff\xff no message", timeout=5)
        assert (await kubelet.prepare(claim))[uid(claim)]


async def test_an_unknown_method_is_unimplemented(node):
    async with node.registered() as kubelet:
        call = kubelet.channel.unary_unary("/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeDance")
        with pytest.raises(grpc.RpcError) as refused:
            await call(b"", timeout=5)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_what_a_call_began_comes_to_its_end_when_the_caller_goes_away(node):
    driver = SmallDriver()
    claim = await node.claim("train", "gpu-0")
    async with node.registered(driver) as kubelet:
        driver.gate = asyncio.Event()
        call = asyncio.create_task(kubelet.prepare(claim))
        await until(lambda: ["default/train"] in driver.enforced, saying="the claim is on its way")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        waiting = asyncio.create_task(kubelet.prepare(claim))  # for the lock, which the first call still holds
        driver.gate.set()
        assert (await waiting)[uid(claim)][0].device_name == "gpu-0"
        assert len(node.cdi_files()) == 1


async def test_callers_that_give_up_everywhere_leave_nothing_half_done(node):
    claims = [await node.claim(f"c{i}", f"gpu-{i}") for i in range(20)]
    async with node.registered(many_devices(20)) as kubelet:
        for pause in range(20):
            call = asyncio.create_task(kubelet.prepare(*claims))
            await asyncio.sleep(pause * 0.001)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        answers = await kubelet.prepare(*claims)
        assert all(isinstance(found, list) for found in answers.values())
        assert len(node.cdi_files()) == 20
        assert set((await kubelet.unprepare(*claims)).values()) == {""}
        assert node.cdi_files() == []
        assert not node.remembered() & {uid(claim) for claim in claims}


async def test_a_call_that_takes_too_long_is_answered_before_its_deadline(node):
    driver = SmallDriver()
    claim = await node.claim("train", "gpu-0")
    async with node.registered(driver) as kubelet:
        driver.gate = asyncio.Event()
        error = (await kubelet.prepare(claim, within=1.5))[uid(claim)]
        assert "it continues, and the kubelet retries" in error
        driver.gate.set()
        assert (await kubelet.prepare(claim))[uid(claim)][0].device_name == "gpu-0"


async def test_two_kubelets_at_once_get_the_same(node):
    claim = await node.claim("train", "gpu-0")
    async with node.registered() as one, node.kubelet() as second:
        other = await second.register(NAME)
        first, again = await asyncio.gather(one.prepare(claim), other.prepare(claim))
        assert first == again
        assert len(node.cdi_files()) == 1
        assert await other.unprepare(claim) == await one.unprepare(claim)
