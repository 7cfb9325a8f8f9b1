"""What becomes of a call, without gRPC; the rest is in conformance/test_claims.py."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.wire.plugin import Claim, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest
from kubeletplugin.contract import PrepareError
from kubeletplugin.dra_service import DraService
from tests.kubeletplugin.fakes import DRIVER, FakeNode, prepared, request

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
    answers = {"uid-a": prepared(request("a", "gpu-0")), "uid-b": PrepareError("claim ml/b: no")}
    assert await ask(Answering(answers), A, B) == {"uid-a": ["gpu-0"], "uid-b": "claim ml/b: no"}


async def test_a_claim_without_an_answer_gets_one_and_an_answer_without_a_claim_is_dropped():
    found = await ask(Answering({"uid-x": prepared(request("x", "gpu-0"))}), A)
    assert found.keys() == {"uid-a"}
    assert "got no answer; this is a bug" in found["uid-a"]


async def test_a_failure_is_told_for_each_claim():
    for found in (
        await ask(Answering(failure=KeyError("x")), A, B),
        await give_back(Answering(failure=KeyError("x")), A, B),
    ):
        assert found.keys() == {"uid-a", "uid-b"}
        assert all("failed: KeyError('x'); see the plugin's log" in error for error in found.values())


@pytest.mark.parametrize(
    ("deadline", "remaining"), [pytest.param(0.01, None, id="ours"), pytest.param(40.0, 1.01, id="the-callers")]
)
async def test_the_answer_comes_before_anybody_gives_up(deadline, remaining):
    found = await ask(Stuck(), A, deadline=deadline, remaining=remaining)
    assert "it continues, and the kubelet retries" in found["uid-a"]


async def test_calls_are_observed_with_what_was_refused():
    seen = []
    answers = {"uid-a": prepared(request("a", "gpu-0")), "uid-b": PrepareError("claim ml/b: no")}
    await ask(Answering(answers), A, B, observe=lambda operation, _, failed: seen.append((operation, failed)))
    assert seen == [("prepare", 1)]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(Claim(namespace="ml", name="a"), "are required", id="no-uid"),
        pytest.param(Claim(name="a", uid="u"), "are required", id="no-namespace"),
        pytest.param(
            Claim(namespace="ml", name="a" * 254, uid="u"), "its namespace, name or uid is too long", id="long-name"
        ),
        pytest.param(
            Claim(namespace="ml", name="a", uid="u" * 129), "its namespace, name or uid is too long", id="long-uid"
        ),
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


NAMES = st.text(max_size=8) | st.sampled_from(
    ["ml", "a", "b", "uid-a", "uid-b", "../x", "x" * 300, "a\0b", "uid-claim-x"]
)
CLAIMS = st.lists(st.builds(Claim, namespace=NAMES, name=NAMES, uid=NAMES) | st.sampled_from([A, B]), max_size=6)


@given(calls=st.lists(st.tuples(st.booleans(), CLAIMS), max_size=5))
def test_whatever_a_kubelet_asks_each_uid_has_one_answer_and_nothing_is_lost(calls):
    """Against the whole way to the files: what is prepared is remembered, has its file, and nothing else has."""
    with tempfile.TemporaryDirectory() as folder:
        node = FakeNode(Path(folder))
        node.claims.allocate("a", "gpu-0")
        node.claims.allocate("b", "gpu-1")
        asyncio.run(play(DraService(node.instance(), driver=DRIVER), node, calls))
        assert {path.parent for path in Path(folder).rglob("*.json")} <= {node.own, node.cdi.folder}


async def play(service, node, calls):
    held = set()
    for prepares, claims in calls:
        if prepares:
            answer = await service.node_prepare_resources(NodePrepareResourcesRequest(claims=claims), Context())
            held |= {uid for uid, each in answer.claims.items() if not each.error}
        else:
            answer = await service.node_unprepare_resources(NodeUnprepareResourcesRequest(claims=claims), Context())
            held -= {uid for uid, each in answer.claims.items() if not each.error and not ambiguous(claims, uid)}
        assert answer.claims.keys() == {claim.uid for claim in claims}
        assert all(len(each.error) < 2000 for each in answer.claims.values())
        assert held <= {"uid-a", "uid-b"}
        assert set(node.remembered) == held == node.cdi.uids()


def ambiguous(claims, uid):
    """Two claims of one uid in a call, or one that can be none: nothing was unprepared for it."""
    named = {(each.namespace, each.name) for each in claims if each.uid == uid}
    return len(named) > 1 or any(not all(each) or max(map(len, each)) > 253 for each in named)
