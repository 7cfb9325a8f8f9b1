"""Claims that ask about a node get a live read of it, many claims the same one."""

import asyncio

import msgspec
import pytest

from controller.informers import ControllerInformers
from controller.node_reads import BATCH_DELAY, NodeReads
from dra.engine.claims.actions import LookUpNode
from dra.model.nodes import Node
from tests.controller.claim_writes import ALLOCATION, USES, pod, served, with_an_allocated_claim
from tests.controller.cluster import CLAIMS, NODES
from tests.dra.engine.examples import KEY, NAMESPACE, uid
from tests.dra.kube.scripted import refusal

READY = {"nodeInfo": {"bootID": "boot-1"}, "conditions": [{"type": "Ready", "status": "True"}]}
SOON = BATCH_DELAY + 0.2
EVAL = (NAMESPACE, "eval")


@pytest.fixture
def cluster():
    return with_an_allocated_claim()


@pytest.fixture
async def reading(cluster, world, runtime_of, clock):
    """The loop of a leader."""
    runtime = runtime_of(cluster)
    loop = NodeReads(runtime, ControllerInformers(runtime.client, clock=clock), claims=world)
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(0.1)
    yield loop
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def vanish(cluster, world, *, name="a", claim="train"):
    """Have a pod that uses a claim on node n1 vanish."""
    uses = [{**USES[0], "resourceClaimName": claim}]
    world.observe_pod(pod(cluster, name, spec={"resourceClaims": uses, "nodeName": "n1"}), now=0.0)
    world.forget_pod(uid(name))
    view = world.view((NAMESPACE, claim), now=-1000.0)
    assert [vanished.node for vanished in view.vanished] == ["n1"]


def observe_ready_node(cluster, world):
    world.observe_node(msgspec.convert(cluster.put(NODES, "", "n1", status=READY), Node), now=0.0)


def selectors(cluster):
    return [request.query["fieldSelector"] for request in cluster.requests]


@pytest.mark.parametrize(
    ("status", "lost"),
    [
        pytest.param(READY, [], id="its-kubelet-reports-in"),
        pytest.param({**READY, "conditions": []}, ["n1"], id="its-kubelet-does-not"),
        pytest.param(None, [], id="there-is-no-such-node"),
    ],
)
async def test_the_node_of_a_vanished_pod_is_read_live(cluster, world, reading, status, lost):
    served(cluster, world)
    observe_ready_node(cluster, world)
    vanish(cluster, world)
    cluster.drop(NODES, "", "n1")
    cluster.put(NODES, "", "n2", status=READY)
    if status is not None:
        cluster.put(NODES, "", "n1", status=status)
    reading.request(LookUpNode(claim=KEY, node="n1"))
    await asyncio.sleep(SOON)
    after = world.view(KEY, now=0.0)
    assert ([node.name for node in after.lost_nodes], after.vanished) == (lost, ())


async def test_one_read_answers_all_claims_that_ask_about_a_node(cluster, world, reading):
    cluster.put(CLAIMS, NAMESPACE, "eval", status={"allocation": ALLOCATION})
    observe_ready_node(cluster, world)
    for name, claim in (("a", "train"), ("b", "eval")):
        served(cluster, world, claim)
        vanish(cluster, world, name=name, claim=claim)
    for _ in range(3):  # a claim whose pods change is decided on again, and asks again
        for key in (KEY, EVAL):
            reading.request(LookUpNode(claim=key, node="n1"))
    await asyncio.sleep(SOON)
    assert selectors(cluster) == ["metadata.name=n1"]
    assert [world.view(key, now=0.0).vanished for key in (KEY, EVAL)] == [(), ()]


async def test_a_node_is_read_seldom_while_thousands_of_claims_ask_one_after_another(cluster, reading):
    cluster.put(NODES, "", "n1", status=READY)
    for number in range(2000):  # two seconds of decisions
        reading.request(LookUpNode(claim=(NAMESPACE, f"claim-{number}"), node="n1"))
        await asyncio.sleep(0.001)
    await asyncio.sleep(SOON)
    assert len(selectors(cluster)) <= 3


async def test_a_read_that_had_begun_before_a_question_does_not_answer_it(cluster, world, reading):
    served(cluster, world)
    plain, answered = cluster.send, asyncio.Event()

    async def send(request):
        response = await plain(request)
        await answered.wait()
        return response

    cluster.send = send
    reading.request(LookUpNode(claim=KEY, node="n1"))
    await asyncio.sleep(SOON)
    reading.request(LookUpNode(claim=EVAL, node="n1"))
    answered.set()
    await asyncio.sleep(SOON)
    assert selectors(cluster) == ["metadata.name=n1"] * 2


async def test_a_read_that_fails_is_repeated(cluster, world, reading):
    served(cluster, world)
    observe_ready_node(cluster, world)
    vanish(cluster, world)
    cluster.refuse[NODES] = refusal(500)
    reading.request(LookUpNode(claim=KEY, node="n1"))
    await asyncio.sleep(SOON)
    assert world.view(KEY, now=0.0).vanished
    del cluster.refuse[NODES]
    await asyncio.sleep(10.0)
    assert not world.view(KEY, now=0.0).vanished


async def test_what_is_asked_before_the_loop_acts_is_read_then(cluster, world, runtime_of, clock):
    served(cluster, world)
    runtime = runtime_of(cluster)
    loop = NodeReads(runtime, ControllerInformers(runtime.client, clock=clock), claims=world)
    loop.request(LookUpNode(claim=KEY, node="n1"))
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(SOON)
    assert selectors(cluster) == ["metadata.name=n1"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
