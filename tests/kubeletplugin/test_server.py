"""What becomes of a call, without gRPC; the rest is in conformance/test_claims.py."""

import asyncio

import pytest

from dra.wire.plugin import Claim, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest
from kubeletplugin.contract import Refused
from kubeletplugin.server import DraService
from tests.kubeletplugin.fakes import DRIVER, prepared, request

A = Claim(namespace="ml", name="a", uid="uid-a")
B = Claim(namespace="ml", name="b", uid="uid-b")


class Context:
    """Of a call."""

    def __init__(self, remaining=None):
        self.remaining = remaining

    def time_remaining(self):
        return self.remaining


class Answering:
    """`Claims` that answer as told."""

    def __init__(self, answers=None, failure=None):
        self.answers = answers or {}
        self.failure = failure
        self.asked = []

    async def prepare(self, claims):
        self.asked += [claim.uid for claim in claims]
        if self.failure is not None:
            raise self.failure
        return self.answers

    unprepare = prepare


class Stuck:
    """`Claims` that never answer."""

    async def prepare(self, claims):
        del claims
        await asyncio.Event().wait()

    unprepare = prepare


async def ask(claims, *named, remaining=None, **options):
    service = DraService(claims, driver=DRIVER, **options)
    answer = await service.node_prepare_resources(NodePrepareResourcesRequest(claims=named), Context(remaining))
    return {uid: each.error or [device.device_name for device in each.devices] for uid, each in answer.claims.items()}


async def give_back(claims, *named):
    service = DraService(claims, driver=DRIVER)
    answer = await service.node_unprepare_resources(NodeUnprepareResourcesRequest(claims=named), Context())
    return {uid: each.error for uid, each in answer.claims.items()}


async def test_each_claim_has_its_own_answer():
    answers = {"uid-a": prepared(request("a", "gpu-0")), "uid-b": Refused("claim ml/b: no")}
    assert await ask(Answering(answers), A, B) == {"uid-a": ["gpu-0"], "uid-b": "claim ml/b: no"}


async def test_a_claim_without_an_answer_gets_one_and_an_answer_without_a_claim_is_dropped():
    found = await ask(Answering({"uid-x": prepared(request("x", "gpu-0"))}), A)
    assert found.keys() == {"uid-a"}
    assert "has got no answer; this is a defect" in found["uid-a"]


async def test_a_failure_is_told_for_each_claim():
    for found in (
        await ask(Answering(failure=KeyError("x")), A, B),
        await give_back(Answering(failure=KeyError("x")), A, B),
    ):
        assert found.keys() == {"uid-a", "uid-b"}
        assert all("failed: KeyError('x'); see the log" in error for error in found.values())


@pytest.mark.parametrize(
    ("deadline", "remaining"), [pytest.param(0.01, None, id="ours"), pytest.param(40.0, 1.01, id="the-callers")]
)
async def test_the_answer_comes_before_anybody_gives_up(deadline, remaining):
    found = await ask(Stuck(), A, deadline=deadline, remaining=remaining)
    assert "what was begun goes on, the kubelet asks again" in found["uid-a"]


async def test_calls_are_observed_with_what_was_refused():
    seen = []
    answers = {"uid-a": prepared(request("a", "gpu-0")), "uid-b": Refused("claim ml/b: no")}
    await ask(Answering(answers), A, B, observe=lambda operation, _, failed: seen.append((operation, failed)))
    assert seen == [("prepare", 1)]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(Claim(namespace="ml", name="a"), "must be given", id="no-uid"),
        pytest.param(Claim(name="a", uid="u"), "must be given", id="no-namespace"),
        pytest.param(Claim(namespace="ml", name="a" * 254, uid="u"), "no object has names that long", id="long-name"),
        pytest.param(Claim(namespace="ml", name="a", uid="u" * 129), "no object has names that long", id="long-uid"),
    ],
)
async def test_what_can_be_no_claim_is_asked_of_nobody(claim, text):
    claims = Answering({"uid-a": prepared(request("a", "gpu-0"))})
    found = await ask(claims, claim, A)
    assert text in found[claim.uid]
    assert len(found[claim.uid]) < 400
    assert found["uid-a"] == ["gpu-0"]
    assert await give_back(claims, claim) == {claim.uid: ""}
    assert claims.asked == ["uid-a"]
