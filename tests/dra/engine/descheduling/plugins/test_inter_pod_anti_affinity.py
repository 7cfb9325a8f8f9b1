"""RemovePodsViolatingInterPodAntiAffinity: the carrier of a violated term goes, and no more pods than needed."""

import pytest

from dra.engine.descheduling import anti_affinity
from dra.engine.descheduling.plugins.inter_pod_anti_affinity import RemovePodsViolatingInterPodAntiAffinity
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import at, job, node, pod, snapshot
from tests.dra.engine.descheduling.plugins.playing import evicted, play, reasons, refused
from tests.violations import for_each_case

REGION = {"region": "main-region"}
N1 = node("n1", cpu="32", labels=REGION)
FREE = node("free", cpu="32", labels={"region": "other-region"})
FOO = {"foo": "bar"}
FOO1 = {"foo1": "bar1"}


def term(labels=FOO, *, topology="region", **more):
    """Return a term of an anti-affinity; `labels` of None stands for no selector."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": labels}}
    return {"topologyKey": topology, **selector, **more}


def shy(name, *terms, on="n1", labels=None, **more):
    """Return a pod with a required anti-affinity."""
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms or (term(),))}
    return plain(name, on, labels=labels, affinity={"podAntiAffinity": rules}, **more)


def plain(name, on="n1", **more):
    return pod(name, on, cpu="100m", **more)


FOUR = [shy("p1"), plain("p2", labels=FOO), shy("p3"), shy("p4")]


@pytest.mark.parametrize(
    ("limits", "goes"),
    [
        pytest.param(Limits(), 3, id="none"),
        pytest.param(Limits(per_node=3), 3, id="node"),
        pytest.param(Limits(per_namespace=3), 3, id="namespace"),
        pytest.param(Limits(per_namespace=3, total=1), 1, id="total"),
    ],
)
def test_all_pods_go_that_must_not_run_beside_the_one_that_stays(limits, goes):
    result = play(RemovePodsViolatingInterPodAntiAffinity, {}, [N1, FREE], FOUR, limits=limits)
    assert len(evicted(result)) == goes
    assert "p2" not in evicted(result)


def test_a_pod_of_a_node_that_is_not_ready_is_in_nobodys_way():
    down = node("down", cpu="32", labels=REGION, ready=False)
    result = play(
        RemovePodsViolatingInterPodAntiAffinity, {}, [N1, down, FREE], [shy("a"), plain("b", "down", labels=FOO)]
    )
    assert evicted(result) == []


@for_each_case(
    [
        pytest.param(
            [
                shy("p5", term(FOO1), labels=FOO, priority=100),
                shy("p6", term(FOO1), labels=FOO, priority=50),
                shy("p7", term(FOO), labels=FOO1, priority=0),
            ],
            ["p7"],
            id="one-of-low-priority-instead-of-two",
        ),
        pytest.param(
            [shy("high", labels=FOO, priority=100), shy("low", labels=FOO, priority=1)], ["low"], id="one-of-a-pair"
        ),
        pytest.param(
            [
                shy("guaranteed", labels=FOO, status={"qosClass": "Guaranteed"}),
                shy("best-effort", labels=FOO, status={"qosClass": "BestEffort"}),
            ],
            ["best-effort"],
            id="BestEffort-goes-before-Guaranteed",
        ),
        pytest.param([shy("a", labels=FOO)], [], id="a-pod-does-not-violate-its-own-term"),
        pytest.param([shy("a"), plain("b")], [], id="the-term-matches-nobody"),
        pytest.param([shy("a"), plain("b", "free", labels=FOO)], [], id="in-another-domain"),
        pytest.param([shy("a", labels=FOO), plain("b", "")], [], id="pending"),
        pytest.param([shy("a", term(None)), plain("b")], [], id="a-term-without-a-selector-matches-nobody"),
        pytest.param([shy("a", term({})), plain("b")], ["a"], id="an-empty-selector-matches-everybody"),
        pytest.param(
            [shy("a", metadata={"deletionTimestamp": at(-5)}), plain("b", labels=FOO)], [], id="the-carrier-is-leaving"
        ),
        pytest.param(
            [shy("a", labels=FOO), shy("b", labels=FOO, metadata={"deletionTimestamp": at(-5)})],
            [],
            id="the-partner-is-terminating",
        ),
        pytest.param([shy("a"), plain("b", labels=FOO, status={"phase": "Succeeded"})], [], id="the-partner-has-ended"),
        pytest.param([shy("a", status={"phase": "Failed"}), plain("b", labels=FOO)], [], id="the-carrier-has-ended"),
        pytest.param(
            [shy("a", term(topology="nobody/has-this")), plain("b", labels=FOO)],
            [],
            id="same-node-but-no-node-has-the-topology-key",
        ),
        pytest.param(
            [shy("a", term(topology="kubernetes.io/hostname")), plain("b", labels=FOO)], ["a"], id="same-hostname"
        ),
        pytest.param([shy("a", term(FOO1), term(FOO)), plain("b", labels=FOO)], ["a"], id="the-second-term"),
        pytest.param(
            [
                plain(
                    "soft",
                    affinity={
                        "podAntiAffinity": {
                            "preferredDuringSchedulingIgnoredDuringExecution": [
                                {"weight": 1, "podAffinityTerm": term()}
                            ]
                        }
                    },
                ),
                plain("b", labels=FOO),
            ],
            [],
            id="soft-terms-are-not-looked-at",
        ),
    ],
)
def test_pods_in_conflict(pods, goes):
    assert evicted(play(RemovePodsViolatingInterPodAntiAffinity, {}, [N1, FREE], pods)) == goes


NAMESPACES = {"a": {"team": "x"}, "b": {"team": "y"}, "ns": {}}


@for_each_case(
    [
        pytest.param({}, "b", False, id="by-default-the-own-namespace-only"),
        pytest.param({"namespaces": ["b"]}, "b", True, id="named"),
        pytest.param({"namespaces": ["b"]}, "a", False, id="named-others-so-not-the-own"),
        pytest.param({"namespaceSelector": {}}, "b", True, id="an-empty-selector-selects-all"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "y"}}}, "b", True, id="selected"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "z"}}}, "b", False, id="not-selected"),
        pytest.param(
            {"namespaces": ["b"], "namespaceSelector": {"matchLabels": {"team": "z"}}},
            "b",
            True,
            id="named-or-selected",
        ),
    ]
)
def test_namespaces_of_a_term(wanted, partner, goes):
    pods = [
        shy("web-0", term(**wanted), namespace="a"),
        plain("web-0", labels=FOO, namespace=partner, metadata={"uid": "another"}),
    ]
    result = play(RemovePodsViolatingInterPodAntiAffinity, {}, [N1, FREE], pods, namespaces=NAMESPACES)
    assert evicted(result) == (["web-0"] if goes else [])


@pytest.mark.parametrize(
    ("keys", "other", "goes"),
    [
        pytest.param({"matchLabelKeys": ["pod-template-hash"]}, "1", True, id="same-revision"),
        pytest.param({"matchLabelKeys": ["pod-template-hash"]}, "2", False, id="another-revision"),
        pytest.param({"mismatchLabelKeys": ["pod-template-hash"]}, "1", False, id="not-the-same-revision"),
        pytest.param({"mismatchLabelKeys": ["pod-template-hash"]}, "2", True, id="any-other-revision"),
        pytest.param({"matchLabelKeys": ["absent"]}, "2", True, id="a-key-that-the-pod-lacks-is-ignored"),
    ],
)
def test_label_keys_of_a_term(keys, other, goes):
    pods = [
        shy("a", term(**keys), labels={"pod-template-hash": "1"}),
        plain("b", labels=FOO | {"pod-template-hash": other}),
    ]
    assert bool(evicted(play(RemovePodsViolatingInterPodAntiAffinity, {}, [N1, FREE], pods))) is goes


def test_pods_on_different_nodes_of_a_domain_are_in_conflict():
    nodes = [N1, node("n5", cpu="32", labels=REGION), FREE]
    pods = [shy("p1"), plain("p11", "n5", labels=FOO)]
    result = play(RemovePodsViolatingInterPodAntiAffinity, {}, nodes, pods)
    assert reasons(result) == {"p1": "must not run beside pod ns/p11 in region=main-region (required anti-affinity)"}


def test_the_carrier_goes_even_if_its_partner_is_protected():
    pods = [shy("p1"), plain("critical", labels=FOO)]
    result = play(RemovePodsViolatingInterPodAntiAffinity, {}, [N1, FREE], pods, protected=["critical"])
    assert evicted(result) == ["p1"]


def test_a_protected_carrier_stays_and_its_partner_as_well():
    pods = [shy("critical"), plain("p2", labels=FOO)]
    result = play(RemovePodsViolatingInterPodAntiAffinity, {}, [N1, FREE], pods, protected=["critical"])
    assert refused(result) == {"critical": "Protected"}
    assert evicted(result) == []


@pytest.mark.parametrize(
    ("other", "more"),
    [
        pytest.param(
            node("n2", labels={"datacenter": "east"}), {"nodeSelector": {"datacenter": "west"}}, id="selector"
        ),
        pytest.param(node("n2", unschedulable=True), {}, id="cordoned"),
        pytest.param(node("n2", cpu="2m"), {}, id="too-small"),
    ],
)
def test_a_pod_stays_if_no_other_node_takes_it(other, more):
    pods = [shy("p1", **more), plain("p2", labels=FOO)]
    assert refused(play(RemovePodsViolatingInterPodAntiAffinity, {}, [N1, other], pods)) == {"p1": "NoPlace"}


def test_the_arguments_select_who_may_go_and_not_who_counts():
    pods = [shy("a", labels={"go": "yes"}), shy("b"), plain("c", labels=FOO)]
    args = {"labelSelector": {"matchLabels": {"go": "yes"}}}
    assert evicted(play(RemovePodsViolatingInterPodAntiAffinity, args, [N1, FREE], pods)) == ["a"]


def test_a_pod_that_is_being_migrated_is_in_nobodys_way():
    moving = plain("moving", labels=FOO)
    cluster = snapshot([N1, FREE], [shy("a"), moving], jobs=[job(moving, node="free")])
    assert evicted(play(RemovePodsViolatingInterPodAntiAffinity, {}, cluster)) == []


def test_a_tenant_with_many_terms_and_labels_costs_a_bounded_time_and_nobody_else(monkeypatch):
    monkeypatch.setattr(anti_affinity, "COMPARISONS_PER_NAMESPACE", 200)
    everybody = {"matchExpressions": [{"key": "never", "operator": "DoesNotExist"}]}
    nodes = [*(node(f"n{n}", cpu="32", labels={"region": f"r{n}"}) for n in range(40)), FREE]
    pods = [
        shy(
            f"t{n}",
            {"topologyKey": "region", "labelSelector": everybody, "matchLabelKeys": ["n"]},
            on=f"n{n}",
            labels={"n": str(n)},
            namespace="a-tenant",
        )
        for n in range(40)
    ]
    honest = [shy("a", on="n39"), plain("b", "n39", labels=FOO)]
    result = play(RemovePodsViolatingInterPodAntiAffinity, {}, nodes, [*pods, *honest])
    assert evicted(result) == ["a"]
    (note,) = result.notes
    assert "namespace a-tenant: their anti-affinity has too many different terms and labels" in note
