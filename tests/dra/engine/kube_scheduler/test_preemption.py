"""Who has to leave for whom: tables of pods on nodes of eight CPUs, the rules of upstream's DefaultPreemption."""

from dataclasses import replace

import msgspec
import pytest

from dra.engine.kube_scheduler.cluster_cache import ClusterCache
from dra.engine.kube_scheduler.node_info import PodRequests
from dra.engine.kube_scheduler.preemption import preempt
from dra.engine.kube_scheduler.scheduling_queue import QueuedPodInfo
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.preemption import PodDisruptionBudget
from dra.model.releases import NEWEST, Release
from dra.model.scheduling import SchedulerNode, SchedulerPod
from dra.model.slices import ResourceSlice
from tests.dra.engine.diagnosis import cluster_states
from tests.violations import for_each_case


def on(node, name, cpu, priority=0, *, began="2026-11-20T10:00:00Z", app="", **more):
    """A pod that runs."""
    status = {"startTime": began} | more.pop("status", {})
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": name, "labels": {"app": app} if app else {}}
        | more.pop("metadata", {}),
        "spec": {"nodeName": node, "priority": priority, "containers": [_cpu(cpu)]} | more,
        "status": status,
    }


def _cpu(cpu):
    return {"resources": {"requests": {"cpu": str(cpu)}}}


def budget(app, allowed, **status):
    return {
        "metadata": {"name": app, "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed} | status,
    }


def left_for(
    cpu,
    *running,
    priority=100,
    budgets=(),
    claims=(),
    nodes=("n1", "n2"),
    veto=None,
    status=None,
    release=NEWEST,
    **spec,
):
    """Who leaves for a pod; the node, and the names sorted by importance. None: nobody."""
    cluster, pods = ClusterCache(release=release), {}
    for name in nodes:
        cluster.update_node(msgspec.convert(cluster_states.node(name), SchedulerNode))
        cluster.inventory.observe(msgspec.convert(cluster_states.offer(name), ResourceSlice))
    cluster.update_class(msgspec.convert({"metadata": {"name": cluster_states.DRIVER}}, DeviceClass))
    for each in claims:
        cluster.claims.observe(msgspec.convert(each, ResourceClaim))
    for each in running:
        pod = msgspec.convert(each, SchedulerPod)
        pods[pod.metadata.uid] = pod
        cluster.add_pod(pod, pod.spec.node_name)
    asked = on("", "new", cpu, priority, status=status or {}, **spec)
    entry = QueuedPodInfo(PodRequests.from_pod(msgspec.convert(asked, SchedulerPod)))
    found = preempt(
        entry,
        cluster,
        pods=pods,
        budgets=msgspec.convert(list(budgets), list[PodDisruptionBudget]),
        process_preemption=veto,
    )
    if found is None:
        return None
    violating = "!" if found.pdb_violations else ""
    return (found.node + violating, *(each.metadata.name for each in found.victims))


def with_port(number, **port):
    return {"containers": [_cpu(1) | {"ports": [{"hostPort": number} | port]}]}


@pytest.mark.parametrize(
    ("running", "port", "left"),
    [
        pytest.param([on("n1", "a", 1, **with_port(80))], 80, ("n1", "a"), id="who-uses-the-port-leaves"),
        pytest.param(
            [on("n1", "a", 1, **with_port(80)), on("n1", "b", 1, **with_port(81))],
            80,
            ("n1", "a"),
            id="and-nobody-else",
        ),
        pytest.param([on("n1", "a", 1, 1000, **with_port(80))], 80, None, id="not-a-pod-of-higher-priority"),
        pytest.param([on("n1", "a", 1, **with_port(80))], 81, None, id="another-port-is-free"),
    ],
)
def test_pods_leave_for_a_host_port(running, port, left):
    assert left_for(1, *running, nodes=("n1",), **with_port(port)) == left


LATER = "2026-11-20T11:00:00Z"
FULL = on("n2", "full", 8, 1000)
"""Nobody of that importance leaves."""


@for_each_case(
    [
        pytest.param(4, [on("n1", "a", 8, 100), FULL], None, id="nobody-of-the-same-priority"),
        pytest.param(4, [on("n1", "a", 8), FULL], ("n1", "a"), id="whoever-is-less-important"),
        pytest.param(4, [on("n1", "a", 2), on("n1", "b", 5, 200), FULL], None, id="not-in-vain"),
        pytest.param(4, [on("n1", "a", 4, 1), on("n1", "b", 4, 2), FULL], ("n1", "a"), id="the-more-important-stays"),
        pytest.param(4, [on("n1", "a", 4), on("n1", "b", 4, began=LATER), FULL], ("n1", "b"), id="the-older-stays"),
        pytest.param(4, [on("n1", "a", 2), on("n1", "b", 6, 1), FULL], ("n1", "b"), id="no-more-than-are-needed"),
        pytest.param(4, [on("n1", "a", 8, 5), on("n2", "b", 8, 3)], ("n2", "b"), id="the-least-important-of-all-nodes"),
        pytest.param(
            8, [on("n1", "a", 8, 3), on("n2", "b", 4, 3), on("n2", "c", 4, -9)], ("n1", "a"), id="the-smaller-sum"
        ),
        pytest.param(4, [on("n1", "a", 8), on("n2", "b", 8, began=LATER)], ("n2", "b"), id="the-youngest-of-alike"),
    ]
)
def test_who_leaves_for_a_pod(cpu, running, left):
    assert left_for(cpu, *running) == left


@pytest.mark.parametrize(
    ("budgets", "left"),
    [
        pytest.param([budget("x", 1)], ("n1", "a"), id="a-budget-that-allows-it"),
        pytest.param([budget("x", 0)], ("n1", "b"), id="rather-somebody-more-important-than-against-a-budget"),
        pytest.param([budget("x", 0), budget("y", 0)], ("n1!", "a"), id="against-a-budget-if-nothing-else-helps"),
        pytest.param([budget("x", 0, disruptedPods={"a": LATER})], ("n1", "a"), id="who-is-counted-already"),
        pytest.param([{**budget("x", 0), "spec": {"selector": {}}}], ("n1", "a"), id="a-budget-about-nobody"),
    ],
)
def test_what_budgets_mean(budgets, left):
    running = (on("n1", "a", 4, 1, app="x"), on("n1", "b", 4, 2, app="y"), FULL)
    assert left_for(4, *running, budgets=budgets) == left


@pytest.mark.parametrize(
    ("release", "left"),
    [pytest.param(Release.V1_37, ("n1", "a"), id="1.37"), pytest.param(Release.V1_38, ("n1", "b"), id="1.38")],
)
@pytest.mark.parametrize("app", ["x", ""], ids=["labelled", "without-labels"])
def test_a_budget_with_an_empty_selector_covers_its_namespace_since_1_38(release, left, app):
    """The pods of a namespace are chosen last: ``b`` is in another one."""
    other = on("n1", "b", 4, 2, metadata={"namespace": "other"})
    everything = {**budget("x", 0), "spec": {"selector": {}}}
    assert left_for(4, on("n1", "a", 4, 1, app=app), other, FULL, budgets=[everything], release=release) == left


def adding(*names):
    """Return an extender that names pods by name as victims of each node that it is asked about."""

    def process(_, candidates):
        return [replace(one, victims=tuple(pod for pod in VICTIMS if pod.metadata.name in names)) for one in candidates]

    return process


VICTIMS = tuple(msgspec.convert(on("n1", name, 1, 1), SchedulerPod) for name in ("a", "b"))


@pytest.mark.parametrize(
    ("release", "names", "left"),
    [
        pytest.param(Release.V1_37, ("a",), None, id="1.37-asks-about-no-node-with-room"),
        pytest.param(Release.V1_38, ("a",), ("n1", "a"), id="1.38-takes-the-victims-of-the-extender"),
        pytest.param(Release.V1_38, (), None, id="1.38-drops-a-node-that-stays-empty"),
    ],
)
def test_an_extender_may_add_victims_on_a_node_that_has_room(release, names, left):
    running = (on("n1", "a", 1, 1), on("n1", "b", 1, 1))
    assert left_for(1, *running, nodes=("n1",), veto=adding(*names), release=release) == left


def test_a_node_without_pods_of_a_lower_priority_is_no_candidate_for_an_extender():
    asked = []

    def process(_, candidates):
        asked.extend(candidates)
        return []

    assert left_for(1, on("n1", "a", 1, 100), nodes=("n1",), veto=process, release=Release.V1_38) is None
    assert asked == []


def test_a_budget_is_used_up_by_the_most_important_first():
    running = (on("n1", "a", 4, 1, app="x"), on("n1", "b", 4, 2, app="x"), FULL)
    assert left_for(8, *running, budgets=[budget("x", 1)]) == ("n1!", "b", "a")
    assert left_for(8, *running, budgets=[budget("x", 2)]) == ("n1", "b", "a")


def test_a_node_without_violations_comes_first():
    running = (on("n1", "a", 8, 1, app="x"), on("n2", "b", 8, 50))
    assert left_for(4, *running, budgets=[budget("x", 0)]) == ("n2", "b")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"preemptionPolicy": "Never"}, id="who-never-does"),
        pytest.param({"nodeSelector": {"zone": "x"}}, id="unsuited"),
        pytest.param({"resourceClaims": [{"name": "c", "resourceClaimName": "nowhere"}]}, id="whose-claim-is-missing"),
    ],
)
def test_for_some_nobody_leaves(spec):
    running = (on("n1", "a", 8), FULL)
    assert left_for(4, *running) == ("n1", "a")
    assert left_for(4, *running, **spec) is None


def test_nobody_leaves_for_devices():
    """What a victim's claim has counts as held: upstream's plugin does not think it away."""
    uses = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    held = cluster_states.claim("h", "n1/gpu-0", "n1/gpu-1", listed=({"resource": "pods", "name": "a", "uid": "a"},))
    running = (on("n1", "a", 8, resourceClaims=[{"name": "h", "resourceClaimName": "h"}]), FULL)
    assert left_for(1, *running, claims=(held, cluster_states.claim("c")), nodes=("n1",), **uses) is None
    assert left_for(1, *running, claims=(cluster_states.claim("h", "n1/gpu-0"), cluster_states.claim("c")), **uses) == (
        "n1",
        "a",
    )


def test_nobody_more_leaves_while_others_are_leaving():
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    going = on("n1", "a", 4, metadata={"deletionTimestamp": LATER}, status={"conditions": [condition]})
    running = (going, on("n1", "b", 4, 1), FULL)
    assert left_for(4, *running, status={"nominatedNodeName": "n1"}) is None
    assert left_for(4, *running, status={"nominatedNodeName": "n2"}) == ("n1", "a")


def test_an_extender_has_the_last_word():
    running = (on("n1", "a", 8), on("n2", "b", 8, began=LATER))
    assert left_for(4, *running, veto=lambda _, found: [each for each in found if each.node == "n1"]) == ("n1", "a")
    assert left_for(4, *running, veto=lambda *_: []) is None
