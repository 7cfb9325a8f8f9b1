"""Migrations of pods that were created before their namespace was labelled: replacements get CPUs of their own."""

from __future__ import annotations

from dra.api.koordinator.well_known import LABEL_ENABLED
from dra.engine.translation.cpu_requests import CLAIM_NAME
from tests.dra.engine.translation.examples import lsr
from tests.scenarios import plugin_of_kubectl
from tests.scenarios.api import Api
from tests.scenarios.claims import listed
from tests.scenarios.koordinator import agreement
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.migrations import ended, outcome, ready_pods
from tests.scenarios.reservations.test_koordinator_requests import NODE, make_templates, named, place
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, NAMESPACES, NODES, POD_MIGRATION_JOBS
from tests.scenarios.target import Target

__all__ = ["place"]


async def test_a_bound_pod_from_before_the_label_moves_to_cpus_of_its_own(
    place: Namespace, migrating: Api, target: Target
) -> None:
    await migrating.patch(NAMESPACES, place.name, {"metadata": {"labels": {LABEL_ENABLED: None}}}, kind="merge-patch")
    await make_templates(place, lsr("1"))
    pod = named(lsr("1"), "", app="bound")
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    del template["metadata"]["name"]
    await migrating.patch(NODES, NODE, {"spec": {"unschedulable": True}}, kind="merge-patch")
    try:
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "bound"}}, "template": template}
        made = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind, "metadata": {"name": "bound"}}
        await place.create({**made, "spec": spec})
        (before,) = await ready_pods(migrating, "bound", 1, namespace=place.name)
    finally:
        await migrating.patch(NODES, NODE, {"spec": {"unschedulable": None}}, kind="merge-patch")
    assert "resourceClaims" not in before["spec"]
    await migrating.patch(NAMESPACES, place.name, {"metadata": {"labels": agreement.LABEL}})

    node = before["spec"]["nodeName"]
    code, said = await plugin_of_kubectl.dra(target.admin, "migrate", f"node/{node}", "--without-cpus", "--no-wait")
    assert code == 0, said
    (job,) = await migrating.all(POD_MIGRATION_JOBS)
    found = await ended(migrating, job["metadata"]["name"])
    assert outcome(found)[0] == "Succeeded", found["status"]
    (after,) = await ready_pods(migrating, "bound", 1, namespace=place.name)
    assert after["spec"]["nodeName"] == NODE
    ((entry, claim),) = [(each["name"], each["resourceClaimName"]) for each in after["status"]["resourceClaimStatuses"]]
    assert entry == CLAIM_NAME
    assert after["metadata"]["uid"] in {
        each["uid"] for each in (await place.get(CLAIMS, claim))["status"]["reservedFor"]
    }
    assert listed(await place.get(CLAIMS, claim), "pods")
