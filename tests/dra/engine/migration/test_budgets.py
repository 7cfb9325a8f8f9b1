"""Budgets: the rules of the eviction API and of OpenKruise's webhook."""

import msgspec
import pytest

from dra.api.migration.model import EvictionPolicy
from dra.engine.migration.budgets import Budgets
from dra.model.preemption import PodUnavailableBudget
from tests.dra.engine.migration.examples import at, budget, pod

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


def forbidding(budgets, found, policy=EvictionPolicy.EVICTION):
    refusal = Budgets((), budgets).unavailable_refusal(found, policy)
    return refusal is not None and refusal.message.split()[1].removesuffix(":")


@pytest.mark.parametrize(
    ("budgets", "found", "wanted"),
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
    budgets = Budgets((budget("d", allowed=1),), (unavailable(allowed=1),))
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
    budgets = Budgets((budget("d", allowed=1),), ())
    budgets.add(migrating)
    assert budgets.disruption_refusal(web("b")) is None


def test_an_eviction_that_the_budget_has_recorded_counts_once():
    recorded = msgspec.structs.replace(
        budget("d", allowed=1), status=msgspec.structs.replace(budget("d", allowed=1).status, disrupted_pods=RECORDED)
    )
    budgets = Budgets((recorded,), (unavailable(allowed=1, disruptedPods=RECORDED),))
    budgets.add(web("a"))
    assert budgets.disruption_refusal(web("b")) is None
    assert budgets.unavailable_refusal(web("b"), EvictionPolicy.EVICTION) is None


def test_a_pod_that_is_not_ready_needs_no_status_that_is_up_to_date():
    stale = budget("d", allowed=0, generation=2, policy="AlwaysAllow")
    assert Budgets((stale,), ()).disruption_refusal(web(ready=False)) is None
    assert Budgets((stale,), ()).disruption_refusal(web()) is not None
