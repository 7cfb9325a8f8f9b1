"""What the stock claim controller writes, by upstream's rules."""

import msgspec
import pytest

from dra.model.claims import ResourceClaim
from dra.model.pods import Pod
from localplane.controller_manager.claims.decide import (
    ClaimPlan,
    claim_statuses,
    lacking_entries,
    listing_patch,
    plan_claim,
)
from tests.violations import for_each_case

PROTECTED = ["resource.kubernetes.io/delete-protection", "example.com/hold"]
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "uid-train"}


def entry(name):
    return {"resource": "pods", "name": name, "uid": f"uid-{name}"}


def claim(*listed, allocated=True, deleting=False, owner="", finalizers=PROTECTED):
    metadata = {"name": "c", "namespace": "ml", "uid": "uid-c", "finalizers": finalizers}
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-28T12:00:00Z"
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
        metadata |= {
            "ownerReferences": [reference],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        }
    status = {"allocation": {"devices": {"results": []}}} if allocated else {}
    return msgspec.convert({"metadata": metadata, "status": status | {"reservedFor": list(listed)}}, ResourceClaim)


def pod(name, *, node="n1", phase="Running", deleting=False, template="", recorded=()):
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-28T12:00:00Z"
    spec = {"nodeName": node}
    if template:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    status = {"phase": phase, "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": n} for n in recorded]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def by_uid(*pods):
    return {each.metadata.uid: each for each in pods}


FREED = {"reservedFor": None, "allocation": None, "devices": None}


@for_each_case(
    [
        pytest.param(claim(entry("a")), [pod("a")], ClaimPlan(), id="a-pod-that-runs-stays"),
        pytest.param(
            claim(entry("a"), entry("b")),
            [pod("a", phase="Succeeded"), pod("b")],
            ClaimPlan(status={"reservedFor": [entry("b")]}),
            id="a-pod-that-has-ended-is-removed",
        ),
        pytest.param(claim(entry("a")), [], ClaimPlan(status=FREED), id="with-the-last-entry-the-devices-go"),
        pytest.param(
            claim(entry("a")), [pod("a", node="", deleting=True)], ClaimPlan(status=FREED), id="deleted-before-binding"
        ),
        pytest.param(claim(entry("a")), [pod("a", deleting=True)], ClaimPlan(), id="a-pod-that-terminates-stays"),
        pytest.param(claim(entry("a"), JOB), [], ClaimPlan(status={"reservedFor": [JOB]}), id="entries-of-others-stay"),
        pytest.param(claim(), [], ClaimPlan(), id="an-allocation-without-entries-stays"),
        pytest.param(claim(deleting=True), [], ClaimPlan(status=FREED), id="unless-the-claim-is-deleted"),
        pytest.param(
            claim(allocated=False), [], ClaimPlan(finalizers=["example.com/hold"]), id="then-the-finalizer-goes"
        ),
        pytest.param(
            claim(allocated=False, finalizers=[], owner="a"),
            [pod("a", phase="Failed")],
            ClaimPlan(delete=True),
            id="a-generated-claim-goes-with-its-pod",
        ),
        pytest.param(
            claim(allocated=False, finalizers=[], owner="a"), [pod("a")], ClaimPlan(), id="and-stays-while-it-runs"
        ),
    ]
)
def test_claims(of, pods, plan):
    assert plan_claim(of, by_uid(*pods)) == plan


@pytest.mark.parametrize(
    ("of", "listed"),
    [
        pytest.param(claim(JOB), [JOB, entry("a")], id="a-bound-pod-is-listed"),
        pytest.param(claim(entry("a")), None, id="that-is-listed"),
        pytest.param(claim(allocated=False), None, id="without-devices"),
        pytest.param(claim(*(entry(f"p{n}") for n in range(256))), None, id="the-list-is-full"),
    ],
)
def test_bound_pods(of, listed):
    assert listing_patch(of, pod("a")) == (None if listed is None else {"reservedFor": listed})


@pytest.mark.parametrize(
    ("of", "owned", "lacks", "records"),
    [
        pytest.param(pod("a", template="t"), [], ["gpu"], None, id="first-the-claim-is-made"),
        pytest.param(
            pod("a", template="t"),
            [claim(owner="a")],
            [],
            [{"name": "gpu", "resourceClaimName": "c"}],
            id="then-it-is-recorded",
        ),
        pytest.param(pod("a", template="t", recorded=["c"]), [claim(owner="a")], [], None, id="once"),
        pytest.param(pod("a", template="t", recorded=["c"]), [], [], None, id="a-claim-that-is-gone-is-not-made-anew"),
        pytest.param(pod("a"), [], [], None, id="a-pod-without-templates"),
    ],
)
def test_claims_from_templates(of, owned, lacks, records):
    assert [each.name for each in lacking_entries(of, owned)] == lacks
    assert claim_statuses(of, owned) == records
