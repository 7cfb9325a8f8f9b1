"""The extender reads PodDisruptionBudgets, and does without where it may not."""

import pytest

from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import Site

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
UNREADABLE = FaultRule(fault=Fault.REFUSED, component="extender", resource="poddisruptionbudgets.policy")


async def preempted(site, name):
    """Return victims and violations for a pod of 4, where kube-scheduler would preempt the pod in the reservation."""
    await site.ask(
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "urgent"}, "value": 1000},
    )
    await site.reserve("r", "4", allocateOnce=False)
    await site.place("r")
    for owner, app in (("inside", "r"), ("free", "free"), ("guarded", "guarded")):
        await site.pod(owner, "4", app=app)
        await site.turn()
    await site.ask(
        "POST",
        BUDGETS,
        {"metadata": {"name": "keep"}, "spec": {"selector": {"matchLabels": {"app": "guarded"}}, "maxUnavailable": 0}},
    )
    await site.settle()
    pods = {each["metadata"]["name"]: each for each in await site.pods()}
    assert {each["spec"].get("nodeName") for each in pods.values()} == {"n1"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}
    spec = {"containers": [container], "priorityClassName": "urgent"}
    urgent = await site.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
    asked = {"Pods": [{"UID": pods["inside"]["metadata"]["uid"]}], "NumPDBViolations": 0}
    answer = await site.call("preempt", {"Pod": urgent, "NodeNameToMetaVictims": {"n1": asked}})
    told = answer["NodeNameToMetaVictims"].get("n1")
    names = {each["metadata"]["uid"]: each["metadata"]["name"] for each in pods.values()}
    return told and ([names[each["UID"]] for each in told["Pods"]], told["NumPDBViolations"])


@pytest.mark.parametrize(
    ("rules", "victims"),
    [
        pytest.param((), (["free"], 0), id="budgets-first"),
        pytest.param((UNREADABLE,), None, id="no-others-are-chosen-against-unknown-budgets"),
    ],
)
async def test_the_victims_are_those_that_budgets_let_go(rules, victims):
    async with Site(nodes={"n1": "12"}, rules=rules) as site:
        assert await preempted(site, "urgent") == victims
        assert site.extender.not_ready_reasons() == []


async def test_a_budget_that_is_deleted_guards_no_pod():
    async with Site(nodes={"n1": "12"}) as site:
        await preempted(site, "urgent")
        await site.delete(f"{BUDGETS}/keep")
        await site.settle()
        assert site.extender.cache.budgets == {}
