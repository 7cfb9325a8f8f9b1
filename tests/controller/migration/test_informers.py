import asyncio

from dra.kube.resources import POD_UNAVAILABLE_BUDGETS
from tests.controller.migration.site import DEFINITIONS, Site, refusal

BUDGETS = "/apis/policy.kruise.io/v1alpha1/namespaces/ns/podunavailablebudgets"
LABEL = POD_UNAVAILABLE_BUDGETS.label


async def define(site):
    """Install OpenKruise's budgets."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = {"plural": POD_UNAVAILABLE_BUDGETS.plural, "kind": POD_UNAVAILABLE_BUDGETS.kind}
    spec = {
        "group": POD_UNAVAILABLE_BUDGETS.group,
        "scope": "Namespaced",
        "names": {**kind, "singular": kind["kind"].lower()},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    name = f"{kind['plural']}.{spec['group']}"
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    await site.ask("POST", DEFINITIONS, {**crd, "metadata": {"name": name}, "spec": spec})


async def test_budgets_of_openkruise_are_read_where_the_kind_is_there():
    async with Site() as site:
        await define(site)
        kind = {"apiVersion": POD_UNAVAILABLE_BUDGETS.api_version, "kind": POD_UNAVAILABLE_BUDGETS.kind}
        await site.ask("POST", BUDGETS, {**kind, "metadata": {"name": "web"}, "status": {"unavailableAllowed": 0}})
        site.watch()
        await site.informers.wait_for_sync()
        (found,) = site.cache.arbitration_view().unavailable_budgets
        assert (found.metadata.key, found.status.unavailable_allowed) == (("ns", "web"), 0)


async def test_the_process_is_not_ready_before_the_budgets_of_openkruise_are_listed():
    """Nothing is migrated before, so the probe says why."""
    async with Site() as site:
        await define(site)
        site.answers["GET /apis/policy.kruise.io/v1alpha1/podunavailablebudgets"] = refusal(
            403, "Forbidden", "no right"
        )
        site.watch()
        await asyncio.sleep(5.0)
        assert site.informers.not_ready_reasons() == [f"{LABEL}: not listed yet ({LABEL}: no right)"]
        site.answers.clear()
        await asyncio.sleep(60.0)
        assert site.informers.not_ready_reasons() == []
