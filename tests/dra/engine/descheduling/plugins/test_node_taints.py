"""RemovePodsViolatingNodeTaints: pods that do not tolerate a taint of their node, by effect, key and value."""

import pytest

from dra.engine.descheduling.plugins.node_taints import RemovePodsViolatingNodeTaints
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import at, node, pod
from tests.dra.engine.descheduling.plugins.playing import evicted, play, reasons, refused
from tests.violations import for_each_case

FREE = node("free", cpu="32")


def taint(number=1, effect="NoSchedule", key=""):
    return {"key": key or f"testTaint{number}", "value": f"test{number}", "effect": effect}


def tolerating(number=1, effect="NoSchedule", operator="Equal", **more):
    return {"key": f"testTaint{number}", "value": f"test{number}", "effect": effect, "operator": operator} | more


def tainted(*taints, name="n1", **more):
    return node(name, cpu="32", taints=taints or [taint()], **more)


def small(name="p", *tolerations, on="n1", **more):
    return pod(name, on, cpu="100m", tolerations=list(tolerations), **more)


BOTH = tainted(taint(1), taint(key="testingTaint1"))
PREFERRED = tainted(taint(effect="PreferNoSchedule"))


@for_each_case(
    [
        pytest.param({}, tainted(), [small("a", tolerating()), small("b")], ["b"], id="the-one-without-toleration"),
        pytest.param(
            {}, tainted(), [small("a", tolerating()), small("b", tolerating(9))], ["b"], id="tolerates-another-taint"
        ),
        pytest.param({}, tainted(), [small("a", tolerating(value="other"))], ["a"], id="tolerates-another-value"),
        pytest.param({}, tainted(), [small("a", tolerating(operator="Exists"))], [], id="tolerates-any-value"),
        pytest.param({}, tainted(), [small("a", {"operator": "Exists"})], [], id="tolerates-everything"),
        pytest.param({}, tainted(), [small("a", tolerating(effect=""))], [], id="tolerates-any-effect"),
        pytest.param({}, tainted(), [small("a", tolerating(effect="NoExecute"))], ["a"], id="tolerates-another-effect"),
        pytest.param({}, tainted(taint(effect="NoExecute")), [small()], [], id="NoExecute-is-not-looked-at"),
        pytest.param(
            {"includePreferNoSchedule": True}, tainted(taint(effect="NoExecute")), [small()], [], id="not-even-with-all"
        ),
        pytest.param({}, PREFERRED, [small("p", tolerating(0))], [], id="PreferNoSchedule-not-included"),
        pytest.param(
            {"includePreferNoSchedule": True},
            PREFERRED,
            [small("p", tolerating(0))],
            ["p"],
            id="PreferNoSchedule-included",
        ),
        pytest.param({"includePreferNoSchedule": True}, tainted(), [small()], ["p"], id="NoSchedule-as-well"),
        pytest.param({"excludedTaints": ["x", "testTaint1"]}, tainted(), [small()], [], id="excluded-by-key"),
        pytest.param({"excludedTaints": ["testTaint1=test1"]}, tainted(), [small()], [], id="excluded-by-value"),
        pytest.param(
            {"excludedTaints": ["testTaint1=test2"]}, tainted(), [small()], ["p"], id="another-value-excluded"
        ),
        pytest.param(
            {"excludedTaints": ["testTaint1"]}, BOTH, [small()], ["p"], id="excluded-but-there-is-another-taint"
        ),
        pytest.param(
            {"includedTaints": ["testTaint1=test1"]},
            BOTH,
            [small("p", tolerating())],
            [],
            id="the-other-does-not-count",
        ),
        pytest.param({"includedTaints": ["testTaint2=test2"]}, tainted(), [small()], [], id="not-included"),
        pytest.param(
            {"includedTaints": ["testTaint1=test1"]},
            tainted(),
            [small("a", tolerating()), small("b")],
            ["b"],
            id="included-by-value",
        ),
        pytest.param({"includedTaints": ["testTaint1"]}, tainted(), [small()], ["p"], id="included-by-key"),
        pytest.param(
            {},
            BOTH,
            [small("a", tolerating()), small("b", tolerating(), tolerating(key="testingTaint1"))],
            ["a"],
            id="each-taint-must-be-tolerated",
        ),
        pytest.param({}, tainted(), [small(status={"phase": "Failed"})], [], id="an-ended-pod-is-in-nobody's-way"),
        pytest.param({}, tainted(), [small(metadata={"deletionTimestamp": at(-5)})], [], id="being-deleted-already"),
        pytest.param({"namespaces": {"exclude": ["ns"]}}, tainted(), [small()], [], id="namespace"),
        pytest.param({"labelSelector": {"matchLabels": {"a": "b"}}}, tainted(), [small()], [], id="labels"),
        pytest.param({}, node("n1", cpu="32", unschedulable=True), [small()], ["p"], id="a-cordoned-node-is-tainted"),
        pytest.param(
            {"excludedTaints": ["node.kubernetes.io/unschedulable"]},
            node("n1", cpu="32", unschedulable=True),
            [small()],
            [],
            id="cordons-can-be-excluded",
        ),
        pytest.param({}, tainted(ready=False), [small()], [], id="node-not-ready"),
    ],
)
def test_pods_that_do_not_tolerate_a_taint_that_counts_go(args, host, pods, goes):
    assert evicted(play(RemovePodsViolatingNodeTaints, args, [host, FREE], pods)) == goes


@pytest.mark.parametrize(
    ("value", "operator", "goes"),
    [
        pytest.param("900", "Gt", False, id="950-is-greater-than-900"),
        pytest.param("950", "Gt", True, id="950-is-not-greater-than-950"),
        pytest.param("990", "Lt", False, id="950-is-less-than-990"),
        pytest.param("950", "Lt", True, id="950-is-not-less-than-950"),
        pytest.param("many", "Gt", True, id="not-a-number"),
    ],
)
def test_tolerations_that_compare_numbers(value, operator, goes):
    host = tainted({"key": "sla", "value": "950", "effect": "NoSchedule"})
    given = small("p", {"key": "sla", "operator": operator, "value": value, "effect": "NoSchedule"})
    assert bool(evicted(play(RemovePodsViolatingNodeTaints, {}, [host, FREE], [given]))) is goes


@pytest.mark.parametrize(
    ("limits", "goes"),
    [
        pytest.param(Limits(per_node=2, total=1), 1, id="total"),
        pytest.param(Limits(per_node=1), 1, id="node"),
        pytest.param(Limits(per_namespace=1), 1, id="namespace"),
        pytest.param(Limits(), 2, id="none"),
    ],
)
def test_limits(limits, goes):
    pods = [small("a", tolerating()), small("b"), small("c")]
    assert len(evicted(play(RemovePodsViolatingNodeTaints, {}, [tainted(), FREE], pods, limits=limits))) == goes


@pytest.mark.parametrize(
    ("other", "more"),
    [
        pytest.param(tainted(taint(2), name="n2"), {}, id="tainted-as-well"),
        pytest.param(
            node("n2", labels={"datacenter": "east"}), {"nodeSelector": {"datacenter": "west"}}, id="selector"
        ),
        pytest.param(node("n2", unschedulable=True), {}, id="cordoned"),
        pytest.param(node("n2", cpu="50m"), {}, id="too-small"),
    ],
)
def test_a_pod_stays_if_no_other_node_takes_it(other, more):
    result = play(RemovePodsViolatingNodeTaints, {}, [tainted(), other], [small("p", **more)])
    assert refused(result) == {"p": "NoPlace"}


SOFT = {"includePreferNoSchedule": True}


@pytest.mark.parametrize("node_fit", [True, False], ids=["nodeFit", "no-nodeFit"])
def test_a_pod_does_not_go_from_one_soft_taint_to_the_next(node_fit):
    hosts = [PREFERRED, tainted(taint(2, effect="PreferNoSchedule"), name="n2")]
    result = play(RemovePodsViolatingNodeTaints, SOFT, hosts, [small()], node_fit=node_fit)
    assert refused(result) == {"p": "NoPlace"}


@pytest.mark.parametrize(
    ("tolerations", "excluded", "receivers"),
    [
        pytest.param([], [], {"free"}, id="without-toleration"),
        pytest.param([tolerating(2, operator="Exists", effect="")], [], {"free", "n2"}, id="tolerates-one"),
        pytest.param([], ["testTaint2"], {"free", "n2"}, id="one-does-not-count"),
    ],
)
def test_while_soft_taints_count_pods_go_only_to_nodes_without_these(tolerations, excluded, receivers):
    hosts = [
        tainted(),
        tainted(taint(2, effect="PreferNoSchedule"), name="n2"),
        tainted(taint(3, effect="PreferNoSchedule"), name="n3"),
        FREE,
    ]
    result = play(RemovePodsViolatingNodeTaints, SOFT | {"excludedTaints": excluded}, hosts, [small("p", *tolerations)])
    assert result.decisions[0].receivers == receivers


def test_protected_pods_stay_and_the_others_go():
    pods = [small("critical"), small("of-a-daemonset"), small("mirror"), small("plain")]
    protected = ("critical", "of-a-daemonset", "mirror")
    result = play(RemovePodsViolatingNodeTaints, {}, [tainted(), FREE], pods, protected=protected)
    assert evicted(result) == ["plain"]


def test_pods_of_low_priority_go_first():
    pods = [small("high", priority=100), small("low", priority=1)]
    assert evicted(play(RemovePodsViolatingNodeTaints, {}, [tainted(), FREE], pods)) == ["low", "high"]


def test_the_reason_names_the_taint():
    result = play(RemovePodsViolatingNodeTaints, {}, [tainted(taint(2), taint(1)), FREE], [small("p", tolerating(2))])
    assert reasons(result) == {"p": "does not tolerate taint testTaint1=test1:NoSchedule of its node"}


def test_a_round_that_drains_a_node_says_so():
    hosts = [tainted(name="n1"), tainted(name="n2"), FREE]
    daemon = small("daemon", metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]})
    pods = [small("a"), small("b"), daemon, small("c", on="n2")]
    note = "all pods go in this round; maxNoOfPodsToEvictPerNode would spread that"
    full = play(RemovePodsViolatingNodeTaints, {}, hosts, pods, protected=["daemon"])
    assert full.notes == [f"profile p: RemovePodsViolatingNodeTaints: node n1 and 1 more: {note}"]
    limited = play(RemovePodsViolatingNodeTaints, {}, hosts, pods, protected=["daemon"], limits=Limits(per_node=1))
    assert limited.notes == [f"profile p: RemovePodsViolatingNodeTaints: node n2: {note}"]
