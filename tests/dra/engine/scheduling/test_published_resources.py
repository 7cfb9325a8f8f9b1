"""Of one extended resource, nodes with a device plugin count what they publish; elsewhere DRA serves it."""

import msgspec
import pytest

from dra.api.reservations import well_known
from dra.engine.scheduling import bindings, verbs
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model.extender_protocol import MetaPod, MetaVictims
from dra.model.meta import Uid
from dra.model.scheduling import SchedulerNode, SchedulerPod
from tests.dra.engine.scheduling.examples import reservation
from tests.violations import for_each_case

GPU = "nvidia.com/gpu"
KEEPS_ITS_CARD = {well_known.ANNOTATION_NODE_RESERVATION: f'{{"resources": {{"{GPU}": "1"}}}}'}


def node(name, gpus=None, *, cpu="8", annotations=None):
    allocatable = {"cpu": cpu, "pods": "110"} | ({GPU: gpus} if gpus is not None else {})
    metadata = {"name": name, "uid": name, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": allocatable}}, SchedulerNode)


def pod(name="p", *, on="", gpus="1", cpu="1", app="", **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, GPU: gpus}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": app} if app else {}}
    spec = {"nodeName": on, "containers": [container], **spec}
    return msgspec.convert({"metadata": metadata, "spec": spec}, SchedulerPod)


def cluster(*nodes, pods=(), reservations=()):
    cache = SchedulerCache()
    for each in nodes:
        cache.observe_node(each)
    for each in pods:
        cache.observe_pod(each)
    for each in reservations:
        cache.observe_reservation(each)
    return cache


@for_each_case(
    [
        pytest.param(node("n2"), (), "", id="served-by-dra"),
        pytest.param(node("n2", "0"), (), "", id="a-device-plugin-that-has-left"),
        pytest.param(node("n2", "2"), (), "", id="served-by-another-device-plugin"),
        pytest.param(node("n2", "1"), (pod("full", on="n2"),), f"Insufficient {GPU} by node", id="no-card-is-free"),
        pytest.param(
            node("n2", "1", annotations=KEEPS_ITS_CARD), (), f"Insufficient {GPU} by node", id="the-node-keeps-its-card"
        ),
        pytest.param(node("n2", cpu="0"), (), "Insufficient cpu by node", id="what-no-driver-serves-counts"),
        pytest.param(node("n2"), (pod("other", on="n2"),), "", id="served-by-dra-and-used-by-another-pod"),
    ]
)
def test_an_extended_resource_counts_on_nodes_that_publish_it(other, pods, refused):
    cache = cluster(node("n1", "1"), other, pods=pods)
    found = verbs.filter_nodes(cache, pod(), ["n1", "n2"])
    assert found.node_names == (["n1"] if refused else ["n1", "n2"])
    assert found.failed_nodes | found.failed_and_unresolvable_nodes == ({"n2": refused} if refused else {})


def test_a_node_that_is_not_observed_yet_stays_refused():
    found = verbs.filter_nodes(cluster(node("n1", "1")), pod(), ["n1", "n2"])
    assert (found.node_names, [*found.failed_and_unresolvable_nodes]) == (["n1"], ["n2"])


def test_a_pod_is_bound_where_dra_serves_what_a_device_plugin_serves_elsewhere():
    cache = cluster(node("n1", "1"), node("n2"))
    assert bindings.assume_pod(cache, pod(), "n2").node == "n2"
    cache.observe_pod(pod(on="n2"))
    assert cache.accounting.assignment(Uid("uid-p")).node == "n2"
    assert verbs.filter_nodes(cache, pod("q"), ["n2"]).node_names == ["n2"]


def test_a_pod_enters_a_reservation_on_a_node_where_dra_serves_its_card():
    held = reservation(owners=[{"labelSelector": {"matchLabels": {"app": "web"}}}])
    cache = cluster(node("n1"), node("n2", "1"), reservations=[held])
    owner = pod(cpu="5", app="web")
    assert [each.host for each in verbs.prioritize_nodes(cache, owner, ["n1", "n2"])] == ["n1"]
    assert bindings.assume_pod(cache, owner, "n1").reservation == Uid("uid-r")


def test_preemption_for_cpus_goes_on_where_dra_serves_the_card():
    cache = cluster(node("n1"), node("n2", "1"), pods=[pod("victim", on="n1", cpu="8")])
    victims = {"n1": MetaVictims(pods=[MetaPod(uid=Uid("uid-victim"))])}
    assert verbs.process_preemption(cache, pod(priority=10), victims) == victims
