"""RemovePodsViolatingNodeAffinity: a pod goes only if a node that matches, or matches better, has room for it."""

import pytest

from dra.engine.descheduling.plugins import node_affinity
from dra.engine.descheduling.plugins.node_affinity import RemovePodsViolatingNodeAffinity
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import at, node, pod
from tests.dra.engine.descheduling.plugins.playing import evicted, play, reasons, refused, targets
from tests.violations import combinations, for_each_case, named

REQUIRED = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
PREFERRED = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}
LABELS = {"kubernetes.io/desiredNode": "yes"}
PLAIN, LABELLED = node("plain"), node("labelled", labels=LABELS)
CORDONED = node("cordoned", labels=LABELS, unschedulable=True)


def match(labels=LABELS):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]}


def requiring(name="p", on="plain", *, of_node=LABELS, **more):
    terms = {"nodeSelectorTerms": [match(of_node)]}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return pod(name, on, affinity={"nodeAffinity": rules}, **more)


def preferring(name="p", on="plain", *weights, **more):
    """Return a pod that prefers nodes; `weights` are pairs of a weight and labels."""
    terms = [{"weight": weight, "preference": match(labels)} for weight, labels in weights or ((10, LABELS),)]
    rules = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return pod(name, on, affinity={"nodeAffinity": rules}, **more)


KINDS = [pytest.param(REQUIRED, requiring, id="required"), pytest.param(PREFERRED, preferring, id="preferred")]


@for_each_case(
    combinations(
        KINDS,
        [
            pytest.param([LABELLED], "labelled", False, id="where-it-should-be"),
            pytest.param([PLAIN, LABELLED], "plain", True, id="another-node-matches"),
            pytest.param([PLAIN, CORDONED], "plain", False, id="the-one-that-matches-is-cordoned"),
            pytest.param([LABELLED, CORDONED], "labelled", False, id="where-it-should-be-beside-a-cordoned-one"),
            pytest.param([PLAIN, node("labelled", cpu="50m", labels=LABELS)], "plain", False, id="no-room"),
            pytest.param([PLAIN, node("labelled", labels=LABELS, ready=False)], "plain", False, id="not-ready"),
            pytest.param([PLAIN, node("other")], "plain", False, id="no-node-matches"),
        ],
        named([True, False], ["nodeFit", "no-nodeFit"]),
    )
)
def test_a_pod_goes_if_a_node_that_matches_has_room(args, wishing, nodes, on, goes, node_fit):
    pods = [wishing("p", on), pod("other-1", on), pod("other-2", on)]
    result = play(RemovePodsViolatingNodeAffinity, args, nodes, pods, node_fit=node_fit)
    assert targets(result) == ({"p": "labelled"} if goes else {})


@for_each_case(
    combinations(
        KINDS,
        [
            pytest.param(Limits(per_node=1), 1, id="one-per-node"),
            pytest.param(Limits(per_node=0), 0, id="none-per-node"),
            pytest.param(Limits(per_namespace=1), 1, id="one-per-namespace"),
            pytest.param(Limits(per_namespace=0), 0, id="none-per-namespace"),
            pytest.param(Limits(per_namespace=1, total=0), 0, id="none-in-total"),
            pytest.param(Limits(), 2, id="no-limits"),
        ],
    )
)
def test_limits(args, wishing, limits, goes):
    pods = [wishing("p"), wishing("q")]
    assert len(evicted(play(RemovePodsViolatingNodeAffinity, args, [PLAIN, LABELLED], pods, limits=limits))) == goes


@for_each_case(
    combinations(
        KINDS,
        [
            pytest.param({"metadata": {"deletionTimestamp": at(-5)}}, id="being-deleted"),
            pytest.param({"status": {"phase": "Failed"}}, id="ended"),
            pytest.param({"namespace": "excluded"}, id="namespace"),
            pytest.param({"labels": {"keep": "yes"}}, id="labels"),
        ],
    )
)
def test_pods_that_are_not_looked_at(args, wishing, more):
    selection = {
        "namespaces": {"exclude": ["excluded"]},
        "labelSelector": {"matchExpressions": [{"key": "keep", "operator": "DoesNotExist"}]},
    }
    result = play(RemovePodsViolatingNodeAffinity, args | selection, [PLAIN, LABELLED], [wishing(**more)])
    assert not result.decisions


def test_each_kind_is_looked_at_only_if_it_is_named():
    nodes = [PLAIN, LABELLED]
    assert evicted(play(RemovePodsViolatingNodeAffinity, PREFERRED, nodes, [requiring()])) == []
    assert evicted(play(RemovePodsViolatingNodeAffinity, REQUIRED, nodes, [preferring()])) == []
    both = {"nodeAffinityType": [*PREFERRED["nodeAffinityType"], *REQUIRED["nodeAffinityType"]]}
    pods = [requiring("required"), preferring("preferred")]
    assert evicted(play(RemovePodsViolatingNodeAffinity, both, nodes, pods)) == ["preferred", "required"]


def test_a_broken_node_selector_without_a_node_affinity_stays():
    given = pod("p", "plain", nodeSelector=LABELS)
    assert not play(RemovePodsViolatingNodeAffinity, REQUIRED, [PLAIN, LABELLED], [given]).decisions


def test_a_broken_node_selector_beside_a_node_affinity_goes():
    nodes = [node("plain", labels={"a": "b"}), node("labelled", labels={"a": "b", **LABELS})]
    given = requiring(of_node={"a": "b"}, nodeSelector=LABELS)
    assert targets(play(RemovePodsViolatingNodeAffinity, REQUIRED, nodes, [given])) == {"p": "labelled"}


def test_the_refusal_says_why_no_node_has_room():
    full = node("labelled", cpu="50m", labels=LABELS)
    result = play(RemovePodsViolatingNodeAffinity, REQUIRED, [PLAIN, full], [requiring()], node_fit=False)
    assert refused(result) == {"p": "NoPlace"}
    (decision,) = result.decisions
    assert decision.reason == "its node does not match its required node affinity"
    assert "Insufficient cpu" in decision.verdict.message


SPOT, ON_DEMAND = {"capacity": "spot"}, {"capacity": "on-demand"}


@pytest.mark.parametrize("node_fit", [True, False], ids=["nodeFit", "no-nodeFit"])
def test_a_pod_stays_while_the_node_that_it_prefers_is_full_though_another_one_is_free(node_fit):
    nodes = [node("plain"), node("spot", cpu="1", labels=SPOT), node("free")]
    pods = [preferring("p", "plain", (100, SPOT)), pod("filler", "spot", cpu="1")]
    result = play(RemovePodsViolatingNodeAffinity, PREFERRED, nodes, pods, node_fit=node_fit)
    assert refused(result) == {"p": "NoPlace"}
    assert "0/1 nodes are available: 1 Insufficient cpu" in result.decisions[0].verdict.message


@pytest.mark.parametrize(
    ("on", "weights", "receivers"),
    [
        pytest.param("plain", [(10, SPOT)], {"spot", "both"}, id="all-that-match"),
        pytest.param("spot", [(10, SPOT), (20, ON_DEMAND)], {"demand"}, id="a-greater-weight"),
        pytest.param("demand", [(10, SPOT), (20, ON_DEMAND)], None, id="a-smaller-weight-is-no-reason"),
        pytest.param("spot", [(10, SPOT), (5, {"zone": "a"})], {"both"}, id="weights-add-up"),
        pytest.param("both", [(10, SPOT), (5, {"zone": "a"})], None, id="the-best-there-is"),
        pytest.param("spot", [(10, SPOT), (90, {"zone": "nowhere"})], None, id="equal-weight-is-no-reason"),
    ],
)
def test_only_nodes_that_weigh_more_receive_the_pod(on, weights, receivers):
    nodes = [
        node("plain"),
        node("spot", labels=SPOT),
        node("demand", labels=ON_DEMAND),
        node("both", labels=SPOT | {"zone": "a"}),
    ]
    result = play(RemovePodsViolatingNodeAffinity, PREFERRED, nodes, [preferring("p", on, *weights)])
    assert [decision.receivers for decision in result.decisions] == ([] if receivers is None else [receivers])


def test_the_reason_has_both_weights():
    result = play(RemovePodsViolatingNodeAffinity, PREFERRED, [PLAIN, LABELLED], [preferring()])
    assert reasons(result) == {"p": "other nodes match its preferred node affinity better (weight 10, its own 0)"}


def test_the_second_of_two_pods_stays_if_the_first_takes_the_room():
    nodes = [PLAIN, node("labelled", cpu="1", labels=LABELS)]
    result = play(RemovePodsViolatingNodeAffinity, PREFERRED, nodes, [preferring("p"), preferring("q")])
    assert (evicted(result), refused(result)) == (["p"], {"q": "NoPlace"})


def test_a_tenant_with_many_preferences_costs_a_bounded_time_and_nobody_else(monkeypatch):
    monkeypatch.setattr(node_affinity, "MATCHES_PER_NAMESPACE", 10)
    nodes = [PLAIN, LABELLED]
    tenants = [preferring(f"t{n}", "plain", (n + 1, LABELS), cpu="10m", namespace="a-tenant") for n in range(20)]
    result = play(RemovePodsViolatingNodeAffinity, PREFERRED, nodes, [*tenants, preferring("honest", cpu="10m")])
    assert "honest" in evicted(result)
    assert len(evicted(result)) == 6
    (note,) = result.notes
    assert "15 pods stay, 15 of them in namespace a-tenant" in note
