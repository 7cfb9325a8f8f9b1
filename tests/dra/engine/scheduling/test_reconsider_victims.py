"""Which pods are preempted where kube-scheduler's choice does not suffice, because it knows nothing of reservations.

The node has 64 CPUs. 20 are reserved, and a pod inside the reservation takes 16 of these.
"""

import msgspec
import pytest

from dra.engine.scheduling import verbs
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.model import extender_protocol
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import FullSchedulerPod, SchedulerNode, SchedulerPod
from tests.dra.engine.scheduling import examples
from tests.violations import for_each_case

INSIDE = '{"name": "demo", "uid": "uid-r"}'
NODE = {"metadata": {"name": "n1", "uid": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "110"}}}


def pod(name, cpu, *, priority=0, labels=None, annotations=None, node="n1", **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": name} | (labels or {}),
            "annotations": annotations or {},
        },
        "spec": {"nodeName": node, "priority": priority, "containers": [container], **spec},
        "status": {"startTime": "2026-11-20T10:00:00Z"},
    }


CONSUMER = pod("pod-demo-0", 16, annotations={"scheduling.koordinator.sh/reservation-allocated": INSIDE})
GUARDED, FREE = pod("guarded", 20), pod("free", 20, priority=5)


def budget(app, allowed=0):
    return {
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


KEEP = budget("guarded")
EVERYTHING = {**budget("all"), "spec": {"selector": {}}}
TWENTY = {"name": "c", "resources": {"requests": {"cpu": "20"}}}


def held():
    """Return the reservation on the node."""
    reservation = examples.reservation(template={"spec": {"containers": [TWENTY]}}, allocateOnce=False)
    reservation.content["status"]["allocatable"] = {"cpu": "20"}
    return reservation


def preempted(cpu, chosen, there=(CONSUMER, GUARDED, FREE), budgets=(KEEP,), *, listed=True, **spec):
    """Return the victims and the number of violations that kube-scheduler is told; None: the node is no candidate."""
    cache = SchedulerCache()
    cache.observe_node(msgspec.convert(NODE, SchedulerNode))
    cache.observe_reservation(held())
    for each in there:
        cache.observe_pod(msgspec.convert(each, SchedulerPod))
    for each in budgets:
        cache.observe_budget(msgspec.convert(each, PodDisruptionBudget))
    if listed:
        cache.budgets_listed()
    body = {
        "Pod": pod("urgent", cpu, priority=1000, node="", **spec),
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": name} for name in chosen], "NumPDBViolations": 7}},
    }
    preemptor, victims = extender_protocol.decode_preemption_args(msgspec.json.encode(body))
    assert isinstance(preemptor, FullSchedulerPod)
    told = verbs.process_preemption(cache, preemptor, victims).get("n1")
    return told and ([each.uid for each in told.pods or ()], told.num_pdb_violations)


CHOSEN = 7
"""Number of violations that kube-scheduler has counted for its own choice."""


@for_each_case(
    [
        pytest.param(10, ["free"], {}, (["free"], CHOSEN), id="a-choice-that-suffices-stands"),
        pytest.param(10, ["guarded"], {}, (["guarded"], CHOSEN), id="even-against-a-budget"),
        pytest.param(10, ["pod-demo-0"], {}, (["free"], 0), id="a-free-pod-instead-of-a-guarded-one"),
        pytest.param(
            10, ["pod-demo-0"], {"there": [CONSUMER, pod("guarded", 40)]}, (["guarded"], 1), id="counted-honestly"
        ),
        pytest.param(
            10, ["pod-demo-0"], {"budgets": [budget("guarded", 1)]}, (["guarded"], 0), id="a-budget-that-allows-it"
        ),
        pytest.param(30, ["pod-demo-0"], {}, (["free", "guarded"], 1), id="both"),
        pytest.param(50, ["free", "guarded"], {}, None, id="in-vain"),
        pytest.param(10, ["pod-demo-0"], {"listed": False}, None, id="budgets-are-unknown"),
        pytest.param(10, ["free"], {"listed": False}, (["free"], CHOSEN), id="unknown-budgets-do-not-matter"),
        pytest.param(10, [], {}, (["free"], 0), id="rejected-by-a-reservation-alone"),
        pytest.param(10, [], {"there": [CONSUMER, pod("guarded", 40)]}, (["guarded"], 1), id="added-against-a-budget"),
        pytest.param(30, [], {"budgets": [EVERYTHING]}, (["free", "guarded"], 2), id="a-budget-with-an-empty-selector"),
        pytest.param(4, [], {}, ([], CHOSEN), id="rejected-by-another-extender"),
    ]
)
def test_budgets_come_first_where_others_are_chosen(cpu, chosen, more, told):
    assert preempted(cpu, chosen, **more) == told


PROTECTED = pod("guarded", 20, labels={"scheduling.koordinator.sh/disable-preemptible": "true"})


def test_another_pod_is_preempted_instead_of_a_protected_one():
    assert preempted(10, ["guarded"], [CONSUMER, PROTECTED, FREE]) == (["free"], 0)


def test_no_pod_is_preempted_where_a_protected_one_would_have_to_be():
    assert preempted(44, ["guarded"], [CONSUMER, PROTECTED, FREE]) is None


ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}
CLAIM = [{"name": "gpu", "resourceClaimName": "gpu"}]


SMALL, LARGE = pod("guarded", 10), pod("free", 34)


@pytest.mark.parametrize(
    ("cpu", "chosen", "there", "spec", "victims"),
    [
        pytest.param(25, ["tiny"], [pod("tiny", 1), FREE], {}, ["free", "tiny"], id="amounts-do-not-explain-it"),
        pytest.param(20, ["guarded"], [SMALL, LARGE], {"affinity": ANTI}, ["free", "guarded"], id="anti-affinity"),
        pytest.param(20, ["guarded"], [SMALL, LARGE], {"resourceClaims": CLAIM}, ["free", "guarded"], id="claims"),
        pytest.param(20, ["guarded"], [SMALL, LARGE], {}, ["free"], id="amounts-alone"),
    ],
)
def test_a_victim_that_is_needed_for_another_reason_stays_one(cpu, chosen, there, spec, victims):
    told = preempted(cpu, chosen, [CONSUMER, *there], budgets=[], **spec)
    assert told is not None
    assert sorted(told[0]) == victims


def test_a_reservation_that_asks_preempts_no_pod_in_vain():
    """The pod of another reservation frees nothing for this one; of the others, the guarded one stays."""
    cache = SchedulerCache()
    cache.observe_node(msgspec.convert(NODE, SchedulerNode))
    cache.observe_reservation(held())
    wanted = {"spec": {"containers": [TWENTY], "preemptionPolicy": "PreemptLowerPriority"}}
    waiting = examples.reservation(uid="uid-w", template=wanted)
    cache.observe_reservation(msgspec.structs.replace(waiting, content=waiting.content | {"status": {}}))
    for each in (CONSUMER, GUARDED, FREE):
        cache.observe_pod(msgspec.convert(each, SchedulerPod))
    cache.observe_budget(msgspec.convert(budget("guarded"), PodDisruptionBudget))
    cache.budgets_listed()
    placeholder = pod("reservation-uid-w", 20, priority=1000, node="")
    owner = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "name": "w", "uid": "uid-w"}
    placeholder["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    asked = {"n1": extender_protocol.MetaVictims(pods=[extender_protocol.MetaPod(uid="pod-demo-0")])}
    told = verbs.process_preemption(cache, msgspec.convert(placeholder, SchedulerPod), asked)
    assert told == {
        "n1": extender_protocol.MetaVictims(pods=[extender_protocol.MetaPod(uid="free")], num_pdb_violations=0)
    }

    placeholder["status"]["nominatedNodeName"] = "n1"
    nominated = msgspec.convert(placeholder, SchedulerPod)
    cache.observe_pod(nominated)
    cache.forget_pod(msgspec.convert(FREE, SchedulerPod))
    thief = msgspec.convert(pod("thief", 20, priority=2000, node=""), SchedulerPod)
    for _ in range(2):
        assert verbs.filter_nodes(cache, thief, ["n1"]).node_names == []
        assert verbs.filter_nodes(cache, nominated, ["n1"]).node_names == ["n1"]
    cache.forget_pod(nominated)
    assert verbs.filter_nodes(cache, thief, ["n1"]).node_names == ["n1"]
