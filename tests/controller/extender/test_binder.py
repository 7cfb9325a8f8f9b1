"""A pod is bound outside of reservations only if it was not granted a reservation on that node."""

import msgspec
import pytest

from controller.extender.binder import Binder
from controller.extender.binding_confirmer import BindingConfirmer
from controller.extender.informers import ExtenderInformers
from controller.extender.writer import ExtenderWriter
from dra.engine.scheduling import verbs
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.engine.scheduling.unconfirmed_bindings import UnconfirmedBindings
from dra.model.extender_protocol import ExtenderBindingArgs
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.scheduling.examples import NODE, reservation
from tests.dra.kube.scripted import Handling


def owner(name):
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container]}}, SchedulerPod)


@pytest.fixture
def cache():
    """One reservation for once, which two pods may use."""
    filled = SchedulerCache()
    filled.observe_node(NODE)
    filled.observe_reservation(reservation(owners=[{"labelSelector": {"matchLabels": {"app": "web"}}}]))
    for name in ("fast", "slow"):
        filled.observe_pod(owner(name))
    return filled


@pytest.fixture
def bind(cache, runtime_of):
    async def granted(*_, **__):
        return None

    runtime = runtime_of(Handling(None))
    writer = ExtenderWriter(runtime, cache=cache, seconds=2.0)
    writer.bind = granted
    informers = ExtenderInformers(runtime.client, clock=runtime.clock)
    unconfirmed = UnconfirmedBindings(cache)
    confirmer = BindingConfirmer(runtime, informers, cache=unconfirmed, writer=writer)
    binder = Binder(runtime, cache=cache, writer=writer, confirmer=confirmer)

    async def call(name):
        await binder.bind(ExtenderBindingArgs(pod_name=name, pod_namespace="default", pod_uid=name, node="n1"))

    return call


async def test_a_pod_whose_reservation_another_pod_has_taken_is_scheduled_again(cache, bind):
    """Another node may have a reservation for the pod; without any, the pod is bound in the second attempt."""
    slow = cache.pending_pod("slow")
    assert [each.host for each in verbs.prioritize_nodes(cache, slow, ["n1"])] == ["n1"]
    taken = cache.accounting.assume_pod(cache.pod_info(owner("fast")), "n1")
    assert taken.reservation == "uid-r"
    with pytest.raises(WriteRefusedError, match="another pod has taken the reservation"):
        await bind("slow")
    assert cache.accounting.assignment("slow") is None

    assert verbs.prioritize_nodes(cache, slow, ["n1"]) == []
    await bind("slow")
    seat = cache.accounting.assignment("slow")
    assert (seat.node, seat.reservation) == ("n1", None)


async def test_a_pod_that_no_reservation_is_for_is_bound_at_once(cache, bind):
    cache.accounting.assume_pod(cache.pod_info(owner("fast")), "n1")
    assert verbs.prioritize_nodes(cache, cache.pending_pod("slow"), ["n1"]) == []
    await bind("slow")
    assert cache.accounting.assignment("slow").node == "n1"


def test_what_is_remembered_of_a_pod_ends_with_the_pod(cache):
    for name in ("fast", "slow"):
        verbs.prioritize_nodes(cache, cache.pending_pod(name), ["n1"])
    assert cache.nodes_with_reservation.keys() == {"fast", "slow"}
    cache.forget_pod(owner("fast"))
    cache.observe_pod(msgspec.structs.replace(owner("slow"), spec=bound_spec()))
    assert cache.nodes_with_reservation == {}


def bound_spec():
    return msgspec.structs.replace(owner("slow").spec, node_name="n1")
