"""Budgets: the rules of the eviction API and of OpenKruise's webhook."""

import msgspec
import pytest

from dra.api.migration.model import EvictionPolicy
from dra.engine.migration.budgets import Budgets
from dra.engine.migration.pod_index import PodIndex
from dra.model.preemption import PodUnavailableBudget
from tests.dra.engine.migration.examples import at, budget, pod
from tests.violations import for_each_case

SELECTOR = {"selector": {"matchLabels": {"app": "web"}}}
DEPLOYMENT = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
RECORDED = {"a": "2026-11-24T12:00:00Z"}


def unavailable(name="u", *, allowed=0, spec=SELECTOR, annotations=None, **status):
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ns", "annotations": annotations or {}},
            "spec": spec,
            "status": {"unavailableAllowed": allowed, **status},
        },
        PodUnavailableBudget,
    )


def web(name="a", *, annotations=None, labels=None, **more):
    return pod(name, labels={"app": "web"} | (labels or {}), metadata={"annotations": annotations or {}}, **more)


def target(kind, name, *, group="apps"):
    return {"targetRef": {"apiVersion": f"{group}/v1", "kind": kind, "name": name}}


def budgets_of(disruption=(), unavailable=(), *, pods):
    return Budgets(disruption, unavailable, pods=PodIndex(pods))


def forbidding(budgets, found, policy=EvictionPolicy.EVICTION):
    others = [web(name) for name in ("x", "y")]
    refusal = budgets_of((), budgets, pods=[found, *others]).unavailable_refusal(found, policy)
    return refusal is not None and refusal.message.split()[1].removesuffix(":")


@for_each_case(
    [
        pytest.param([unavailable()], web(), "ns/u", id="selector"),
        pytest.param([unavailable(allowed=1)], web(), False, id="allows-one"),
        pytest.param([unavailable()], pod("a", labels={"app": "db"}), False, id="selector-of-other-pods"),
        pytest.param([unavailable(spec={"selector": {}})], web(), "ns/u", id="empty-selector"),
        pytest.param([unavailable(spec={})], web(), False, id="no-selector"),
        pytest.param([unavailable(spec=target("ReplicaSet", "web"))], web(), "ns/u", id="target"),
        pytest.param([unavailable(spec=target("ReplicaSet", "db"))], web(), False, id="target-of-another-name"),
        pytest.param([unavailable(spec=target("ReplicaSet", "web", group="x"))], web(), False, id="another-group"),
        pytest.param([unavailable(spec=target("ReplicaSet", "web"))], web(owner=""), False, id="target-and-bare-pod"),
        pytest.param(
            [unavailable(spec=DEPLOYMENT)],
            web(owner="web-1a2b", labels={"pod-template-hash": "1a2b"}),
            "ns/u",
            id="deployment-through-its-replicaset",
        ),
        pytest.param(
            [unavailable(spec=DEPLOYMENT)],
            web(owner="web-db-1a2b", labels={"pod-template-hash": "1a2b"}),
            False,
            id="deployment-of-a-longer-name",
        ),
        pytest.param(
            [unavailable(spec=target("ReplicaSet", "db") | SELECTOR)], web(), False, id="target-before-selector"
        ),
        pytest.param(
            [unavailable("u"), unavailable("v", spec={})],
            web(annotations={"kruise.io/related-pub": "v"}),
            "ns/v",
            id="related-budget",
        ),
        pytest.param(
            [unavailable("u")], web(annotations={"kruise.io/related-pub": "v"}), False, id="related-budget-is-gone"
        ),
        pytest.param([unavailable()], web(ready=False), False, id="pod-serves-nobody"),
        pytest.param([unavailable()], web(annotations={"pub.kruise.io/no-protect": "true"}), False, id="no-protect"),
        pytest.param([unavailable(desiredAvailable=0)], web(), False, id="nothing-is-desired"),
        pytest.param([unavailable(desiredAvailable=1)], web(), "ns/u", id="one-is-desired"),
        pytest.param([unavailable(disruptedPods=RECORDED)], web(), False, id="eviction-is-recorded"),
        pytest.param([unavailable(unavailablePods=RECORDED)], web(), False, id="update-is-recorded"),
    ],
)
def test_the_unavailable_budgets_of_a_pod(budgets, found, wanted):
    assert forbidding(budgets, found) == wanted


@pytest.mark.parametrize(
    ("operations", "policy", "wanted"),
    [
        pytest.param("EVICT,UPDATE", EvictionPolicy.EVICTION, "ns/u", id="eviction"),
        pytest.param("DELETE", EvictionPolicy.EVICTION, False, id="eviction-is-free"),
        pytest.param("DELETE", EvictionPolicy.DELETE, "ns/u", id="deletion"),
        pytest.param("EVICT", EvictionPolicy.DELETE, False, id="deletion-is-free"),
        pytest.param("", EvictionPolicy.DELETE, "ns/u", id="all-by-default"),
    ],
)
def test_an_unavailable_budget_protects_from_the_operations_that_it_names(operations, policy, wanted):
    found = unavailable(annotations={"kruise.io/pub-protect-operations": operations})
    assert forbidding([found], web(), policy) == wanted


def test_pods_of_jobs_that_have_passed_use_budgets():
    pods = [web(name) for name in ("a", "b", "c")]
    budgets = budgets_of([budget("d", allowed=1)], [unavailable(allowed=1)], pods=pods)
    budgets.add(web("a"))
    refusal = budgets.disruption_refusal(web("b"))
    assert refusal is not None
    assert refusal.message == (
        "poddisruptionbudget ns/d: allows 1 disruptions, and 1 pods of migrations in progress use them"
    )
    refusal = budgets.unavailable_refusal(web("b"), EvictionPolicy.EVICTION)
    assert refusal is not None
    assert refusal.message == (
        "podunavailablebudget ns/u: allows 1 unavailable pods, and 1 pods of migrations in progress use them"
    )


@pytest.mark.parametrize(
    "migrating",
    [
        pytest.param(web("a", node="", ready=False, status={"phase": "Pending"}), id="pending"),
        pytest.param(web("a", ready=False, status={"phase": "Failed"}), id="ended"),
        pytest.param(web("a", ready=False), id="not-ready-and-the-others-are-healthy"),
        pytest.param(pod("a", labels={"app": "web"}, metadata={"deletionTimestamp": at(0)}), id="terminating"),
        pytest.param(pod("a", labels={"app": "db"}), id="of-another-application"),
    ],
)
def test_pods_that_use_no_disruption(migrating):
    budgets = budgets_of([budget("d", allowed=1)], pods=[migrating, *(web(name) for name in ("b", "c", "d"))])
    budgets.add(migrating)
    assert budgets.disruption_refusal(web("b")) is None


def ending(name="a", **more):
    return web(name, **more) if more else pod(name, labels={"app": "web"}, metadata={"deletionTimestamp": at(0)})


THREE_HEALTHY = {"allowed": 1, "healthy": 3, "desired": 2}
TWO_HEALTHY = {"allowed": 1, "healthy": 2, "desired": 1}
ONE_RECORDED = {"allowed": 1, "healthy": 3, "desired": 1, "disrupted": ["a"]}


@for_each_case(
    [
        pytest.param(THREE_HEALTHY, [web("a")], True, id="nothing-has-happened"),
        pytest.param(THREE_HEALTHY, [], False, id="a-pod-is-gone"),
        pytest.param(THREE_HEALTHY, [ending()], False, id="a-pod-is-terminating"),
        pytest.param(THREE_HEALTHY, [web("a", ready=False)], False, id="a-pod-has-become-unready"),
        pytest.param(THREE_HEALTHY, [web("d", ready=False)], False, id="the-replacement-is-not-ready"),
        pytest.param(THREE_HEALTHY, [web("d")], True, id="the-replacement-is-ready"),
        pytest.param(THREE_HEALTHY, [pod("a", labels={"app": "db"})], False, id="a-pod-of-another-application"),
        pytest.param(TWO_HEALTHY, [], True, id="the-status-counts-the-gone-pod"),
        pytest.param(TWO_HEALTHY, [ending()], True, id="the-status-counts-the-terminating-pod"),
        pytest.param(ONE_RECORDED, [web("a")], True, id="recorded-and-not-seen-terminating-yet"),
        pytest.param(ONE_RECORDED, [ending()], True, id="recorded-and-terminating"),
        pytest.param(ONE_RECORDED, [], True, id="recorded-and-gone"),
        pytest.param(ONE_RECORDED, [ending(), ending("d")], True, id="another-one-never-counted"),
        pytest.param(ONE_RECORDED | {"desired": 2}, [ending()], False, id="recorded-and-one-more-went"),
    ]
)
def test_a_status_older_than_the_pods_allows_no_more_than_these_leave(status, others, is_allowed):
    pods = [web("b"), web("c"), *others]
    budgets = budgets_of([budget("d", **status)], pods=pods)
    assert (budgets.disruption_refusal(web("b")) is None) is is_allowed
    same = unavailable(
        allowed=status["allowed"],
        desiredAvailable=status["desired"],
        disruptedPods=dict.fromkeys(status.get("disrupted", ()), at(0)),
    )
    budgets = budgets_of((), [same], pods=pods)
    assert (budgets.unavailable_refusal(web("b"), EvictionPolicy.EVICTION) is None) is is_allowed


def test_the_message_says_that_the_status_is_older_than_the_pods():
    budgets = budgets_of([budget("d", allowed=2, desired=1)], pods=[web("b"), web("c")])
    budgets.add(web("b"))
    refusal = budgets.disruption_refusal(web("c"))
    assert refusal is not None
    assert refusal.message == (
        "poddisruptionbudget ns/d: allows 2 disruptions, of which the newest changes of its pods leave 1, and 1 pods "
        "of migrations in progress use them"
    )


@pytest.mark.parametrize(
    ("spec", "of"),
    [
        pytest.param(SELECTOR, {}, id="selector"),
        pytest.param({"selector": {"matchLabels": {"app": "web", "tier": "1"}}}, {}, id="several-labels"),
        pytest.param({"selector": {}}, {}, id="empty-selector"),
        pytest.param(target("ReplicaSet", "web"), {}, id="target"),
        pytest.param(DEPLOYMENT, {"labels": {"pod-template-hash": "1a2b"}, "owner": "web-1a2b"}, id="deployment"),
        pytest.param(
            target("Rollout", "web", group="example.com"),
            {"annotations": {"kruise.io/related-pub": "u"}},
            id="only-related",
        ),
    ],
)
def test_the_available_pods_of_an_unavailable_budget(spec, of):
    of = of | {"labels": {"tier": "1"} | of.get("labels", {})}
    pods = [web(name, **of) for name in ("a", "b", "c")]
    found = unavailable(allowed=1, spec=spec, desiredAvailable=2)
    assert budgets_of((), [found], pods=pods).unavailable_refusal(pods[0], EvictionPolicy.EVICTION) is None
    refusal = budgets_of((), [found], pods=pods[:2]).unavailable_refusal(pods[0], EvictionPolicy.EVICTION)
    assert refusal is not None


def test_an_eviction_that_the_budget_has_recorded_counts_once():
    pods = [web(name) for name in ("a", "b", "c", "d")]
    recorded = budget("d", allowed=1, disrupted=["a"])
    budgets = budgets_of([recorded], [unavailable(allowed=1, disruptedPods=RECORDED)], pods=pods)
    budgets.add(web("a"))
    assert budgets.disruption_refusal(web("b")) is None
    assert budgets.unavailable_refusal(web("b"), EvictionPolicy.EVICTION) is None


def test_a_pod_that_is_not_ready_needs_no_status_that_is_up_to_date():
    stale = budget("d", allowed=0, generation=2, policy="AlwaysAllow")
    budgets = budgets_of([stale], pods=[])
    assert budgets.disruption_refusal(web(ready=False)) is None
    assert budgets.disruption_refusal(web()) is not None


@pytest.mark.parametrize(
    ("healthy", "is_allowed"),
    [pytest.param(2, True, id="enough-are-healthy"), pytest.param(1, False, id="the-status-counts-a-gone-pod")],
)
def test_a_pod_that_is_not_ready_may_go_while_enough_are_healthy(healthy, is_allowed):
    broken = web(ready=False)
    pods = [broken, *(web(name) for name in ["b", "c"][:healthy])]
    assert (budgets_of([budget("d", allowed=0)], pods=pods).disruption_refusal(broken) is None) is is_allowed
