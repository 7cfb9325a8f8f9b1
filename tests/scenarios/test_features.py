"""Each version of Kubernetes does what `features` says of it, and no more: tried with the stock controllers alone."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from tests.scenarios import api as kubernetes
from tests.scenarios import features, objects, steps
from tests.scenarios.api import ApiError
from tests.scenarios.claims import listed
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS, RESOURCE_SLICES
from tests.scenarios.rights import Probe, Right
from tests.scenarios.taints import BROKEN
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.modes(Mode.ALONGSIDE)

FOREIGN: Final = {"apiGroup": "example.com", "resource": "things", "name": "thing", "uid": "uid-of-the-thing"}
AT_ONCE: Final = 3.0
"""Seconds within which the stock claim controller prunes a list, where it does."""


async def has_gate_policy(namespace: Namespace, target: Target) -> bool:
    del target
    served = await namespace.api.request("GET", "/apis/admissionregistration.k8s.io/v1")
    return any(each["name"] == "mutatingadmissionpolicies" for each in served["resources"])


async def prunes_mixed_lists(namespace: Namespace, target: Target) -> bool:
    del target
    await _use(namespace)
    claim = await namespace.get(CLAIMS, "shared")
    await namespace.patch_status(CLAIMS, "shared", {"reservedFor": [*claim["status"]["reservedFor"], FOREIGN]})
    await steps.end_pods(namespace, "worker")
    try:
        await steps.claim_is(
            namespace, "shared", lambda claim: "worker" not in listed(claim), within=AT_ONCE, saying="it is pruned"
        )
    except AssertionError:
        return False
    return True


async def makes_claims_beside_missing(namespace: Namespace, target: Target) -> bool:
    del target
    await namespace.create(objects.claim_template("made", device_class=await namespace.offer_devices(1)))
    wants = [
        {"name": "missing", "resourceClaimName": "missing"},
        {"name": "made", "resourceClaimTemplateName": "made"},
    ]
    await namespace.create(objects.pod("both", PodShape(spec={"resourceClaims": wants})))
    try:
        await eventually(lambda: namespace.all(CLAIMS), within=AT_ONCE, saying="a claim is made")
    except AssertionError:
        return False
    return True


async def makes_unblocking_claims(namespace: Namespace, target: Target) -> bool:
    del target
    await namespace.create(objects.claim_template("made", device_class=await namespace.offer_devices(1)))
    await namespace.create(objects.pod("owner", PodShape(claim_template="made")))
    claims = await eventually(lambda: namespace.all(CLAIMS), saying="a claim is made")
    (owner,) = claims[0]["metadata"]["ownerReferences"]
    return not owner.get("blockOwnerDeletion")


async def stamps_allocations(namespace: Namespace, target: Target) -> bool:
    del target
    await _use(namespace)
    claim = await namespace.get(CLAIMS, "shared")
    return "allocationTimestamp" in claim["status"]["allocation"]


async def asks_for_a_right_to_bind(namespace: Namespace, target: Target) -> bool:
    await _use(namespace)
    probe = Probe(namespace.api)
    await probe.create()
    try:
        await probe.may_all_but(Right(resource="resourceclaims/binding", group="resource.k8s.io", verb="patch"))
        async with kubernetes.connect(probe.kubeconfig(target.admin, target.folder.path)) as api:
            entries = {"status": {"reservedFor": [FOREIGN]}}
            try:
                await api.patch(CLAIMS, "shared", entries, namespace=namespace.name, subresource="status")
            except ApiError as error:
                return error.status == 422 and "resourceclaims/binding" in str(error)
            return False
    finally:
        await probe.delete()


async def keeps_taints(namespace: Namespace, target: Target) -> bool:
    del target
    name = f"{namespace.name}-tainted"
    tainted = objects.resource_slice(name, driver=f"{namespace.name}.scenario.dra", devices=["broken"])
    tainted["spec"]["devices"][0]["taints"] = [BROKEN]
    try:
        await namespace.create(tainted)
        found = await namespace.api.get(RESOURCE_SLICES, name)
        return "taints" in found["spec"]["devices"][0]
    finally:
        await namespace.api.delete(RESOURCE_SLICES, name)


async def nominates(namespace: Namespace, target: Target) -> bool:
    del target
    async with namespace.history("", resource=PODS) as history:
        await _use(namespace)
        seen = [version.object for version in history.versions]
    return any(not pod["spec"].get("nodeName") and pod["status"].get("nominatedNodeName") for pod in seen)


async def places_partly_allocated_pods(namespace: Namespace, target: Target) -> bool:
    del target
    await _use(namespace)
    devices = f"{namespace.name}.scenario.dra"
    await namespace.create(objects.claim("other", device_class=devices))
    both = [{"name": name, "resourceClaimName": name} for name in ("shared", "other")]
    await namespace.create(objects.pod("both", PodShape(spec={"resourceClaims": both})))
    try:
        await steps.pods_run(namespace, "both", within=AT_ONCE)
    except AssertionError:
        return False
    return True


async def serves_taint_rules(namespace: Namespace, target: Target) -> bool:
    del target
    served = await namespace.api.request("GET", "/apis/resource.k8s.io/v1")
    return any(each["name"] == "devicetaintrules" for each in served["resources"])


async def has_taint_rules(namespace: Namespace, target: Target) -> bool:
    """A stable feature is not listed among the gates."""
    beta = await _has_gate(target, "DRADeviceTaintRules=true|false (BETA")
    return beta or await serves_taint_rules(namespace, target)


async def shares_capacity(namespace: Namespace, target: Target) -> bool:
    del namespace
    return not await _has_gate(target, "DRAConsumableCapacity=true|false (ALPHA")


async def serves_extended_resources(namespace: Namespace, target: Target) -> bool:
    """A feature that is always on is not listed among the gates."""
    del namespace
    return not await _has_gate(target, "DRAExtendedResource=true|false (ALPHA")


async def has_claims_of_groups(namespace: Namespace, target: Target) -> bool:
    """Alpha in 1.36, beta in 1.37, off by default in both."""
    del namespace
    return await _has_gate(target, "DRAWorkloadResourceClaims=true|false (")


async def _has_gate(target: Target, gate: str) -> bool:
    command = [*target.cluster.apiserver.command[:2], "--help"]
    told = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    return gate in told.stdout


PROBES: Final[Mapping[Feature, Callable[[Namespace, Target], Awaitable[bool]]]] = {
    Feature.GATE_POLICY: has_gate_policy,
    Feature.PRUNED_MIXED_LISTS: prunes_mixed_lists,
    Feature.CLAIMS_BESIDE_MISSING: makes_claims_beside_missing,
    Feature.UNBLOCKING_CLAIMS: makes_unblocking_claims,
    Feature.ALLOCATION_TIMESTAMP: stamps_allocations,
    Feature.BINDING_RIGHT: asks_for_a_right_to_bind,
    Feature.CONSUMABLE_CAPACITY: shares_capacity,
    Feature.EXTENDED_RESOURCES: serves_extended_resources,
    Feature.DEVICE_TAINTS: keeps_taints,
    Feature.NOMINATION: nominates,
    Feature.PARTLY_ALLOCATED_PODS: places_partly_allocated_pods,
    Feature.TAINT_RULES: has_taint_rules,
    Feature.TAINT_RULES_BY_DEFAULT: serves_taint_rules,
    Feature.POD_GROUPS: has_claims_of_groups,
}


async def _use(namespace: Namespace) -> None:
    """Let a pod run that uses a claim."""
    await namespace.create(objects.claim("shared", device_class=await namespace.offer_devices(2)))
    await namespace.create(objects.pod("worker", PodShape(claim="shared")))
    await steps.pods_run(namespace, "worker")


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name.lower().replace("_", "-"))
async def test_a_version_has_what_is_said_of_it(namespace: Namespace, target: Target, feature: Feature) -> None:
    assert await PROBES[feature](namespace, target) is feature.among(features.kubernetes_version())


def test_the_page_about_versions_is_that_of_the_table() -> None:
    assert features.PAGE.read_text(encoding="utf-8") == features.page(), "python -m tests.scenarios.features"
