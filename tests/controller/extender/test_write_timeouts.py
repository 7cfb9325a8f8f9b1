"""Writes of the extender that no bind waits for end before another replica can hold the lease, too."""

import asyncio

import msgspec

from controller.extender.informers import ExtenderInformers
from controller.extender.node_reservation_store import NodeReservationStore
from controller.extender.writer import ExtenderWriter
from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.scheduling.node_reservations import CONFIG_MAP_NAME
from dra.requests.leadership import Leadership
from tests.dra.engine.scheduling.examples import NODE
from tests.dra.kube.scripted import Handling, ok, refusal

META = {"metadata": {"name": "x", "namespace": "default", "uid": "x"}}


class Expiring(Leadership):
    """A lease that ends in a second."""

    def write_until(self):
        return asyncio.get_running_loop().time() + 1.0


def node(annotation):
    metadata = msgspec.structs.replace(NODE.metadata, annotations={ANNOTATION_NODE_RESERVATION: annotation})
    return msgspec.structs.replace(NODE, metadata=metadata)


async def test_the_write_that_requeues_a_pod(runtime_of, cache):
    transport = Handling(lambda _: ok(META))
    writer = ExtenderWriter(runtime_of(transport, Expiring()), cache=cache, seconds=5.0)
    await writer.requeue_pod(("default", "p"), "uid-p", "1-0")
    assert [request.timeout for request in transport.requests] == [1.0]


async def test_the_writes_that_store_node_reservations(runtime_of, cache, clock):
    transport = Handling(
        lambda request: (
            refusal(404, "NotFound", name=CONFIG_MAP_NAME) if request.method == "PATCH" else ok(META, status=201)
        )
    )
    runtime = runtime_of(transport, Expiring())
    store = NodeReservationStore(
        runtime, ExtenderInformers(runtime.client, clock=clock), cache=cache.node_reservations, namespace="default"
    )
    cache.observe_node(node('{"resources": {"cpu": "1"}}'))
    cache.observe_node(node("unreadable"))
    await store.reconcile(CONFIG_MAP_NAME, runtime.moment())
    assert [(request.method, request.timeout) for request in transport.requests] == [("PATCH", 1.0), ("POST", 1.0)]
