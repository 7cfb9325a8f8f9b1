"""Jobs that cannot succeed: nothing is reserved for them."""

import pytest

from dra.engine.migration.view import ClaimReach
from tests.dra.engine.migration.stages import FORBIDDEN, MISSING, outcome, reserved, supplied
from tests.dra.engine.migration.world import NOON, OLD_NODE, World, job, pod, timestamp
from tests.violations import for_each_case


def by_template(**spec):
    return job(spec={"reservationOptions": {"template": {"spec": spec}}})


@for_each_case(
    [
        pytest.param(
            job(spec={"podRef": {"namespace": "", "name": "web-a"}}),
            None,
            ("Failed", "InvalidPodRef"),
            "namespace and name are required",
            id="pod-ref-without-a-namespace",
        ),
        pytest.param(job(), [], MISSING, 'Pod "default/web-a" does not exist', id="no-pod"),
        pytest.param(job(passed=False), [], MISSING, "does not exist", id="no-pod-before-arbitration"),
        pytest.param(
            job(spec={"podRef": {"uid": "uid-before"}}), None, MISSING, "with uid uid-before", id="pod-with-another-uid"
        ),
        pytest.param(
            job(), [pod(spec={"schedulerName": "mine"})], FORBIDDEN, "mine places no Reservations", id="scheduler"
        ),
        pytest.param(
            job(),
            [pod(node="", spec={"schedulingGates": [{"name": "reserve.dra/reservation"}]})],
            FORBIDDEN,
            "scheduling gate reserve.dra/reservation",
            id="own-scheduling-gate",
        ),
        pytest.param(job(), [pod(controller=None)], FORBIDDEN, "has no controller", id="bare-pod"),
        pytest.param(
            job(),
            [pod(metadata={"deletionTimestamp": timestamp(NOON)})],
            FORBIDDEN,
            "is being deleted already",
            id="terminating-pod",
        ),
        pytest.param(job(), [pod(status={"phase": "Succeeded"})], FORBIDDEN, "has ended", id="finished-pod"),
        pytest.param(
            job(metadata={"labels": {"koordinator.sh/evict-policy": "Drain"}}),
            None,
            FORBIDDEN,
            "podmigrationjob migration: label koordinator.sh/evict-policy is none of Eviction, Delete, SoftEviction",
            id="unknown-policy-of-the-job",
        ),
        pytest.param(
            job(),
            [pod(metadata={"labels": {"koordinator.sh/evict-policy": "Drain"}})],
            FORBIDDEN,
            "pod default/web-a: label koordinator.sh/evict-policy",
            id="unknown-policy-of-the-pod",
        ),
        pytest.param(
            job(),
            [pod(metadata={"annotations": {"scheduling.koordinator.sh/reservation-affinity": '{"name": "other"}'}})],
            FORBIDDEN,
            "didn't match the requested reservation name",
            id="pod-that-requires-another-reservation",
        ),
        pytest.param(
            job(),
            [pod(metadata={"annotations": {"scheduling.koordinator.sh/reservation-affinity": "{"}})],
            FORBIDDEN,
            "annotation scheduling.koordinator.sh/reservation-affinity",
            id="pod-with-a-malformed-affinity",
        ),
        pytest.param(
            job(),
            [pod(metadata={"labels": {"scheduling.koordinator.sh/reservation-ignored": "true"}})],
            FORBIDDEN,
            "label scheduling.koordinator.sh/reservation-ignored=true, so its replacement would use no Reservation",
            id="pod-that-ignores-reservations",
        ),
        pytest.param(
            by_template(owners=[{"labelSelector": {"matchLabels": {"app": "other"}}}]),
            None,
            FORBIDDEN,
            "has no owner that matches the pod",
            id="template-with-other-owners",
        ),
        pytest.param(
            by_template(template={"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}),
            None,
            FORBIDDEN,
            "Insufficient cpu, requested: 1000, used: 0, capacity: 500",
            id="template-that-is-too-small",
        ),
        pytest.param(
            by_template(unknown=1),
            None,
            ("Failed", "FailedCreateReservation"),
            "spec.reservationOptions.template",
            id="template-with-an-unknown-field",
        ),
        pytest.param(
            by_template(owners=[{"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}]),
            None,
            ("Failed", "FailedCreateReservation"),
            "spec.reservationOptions.template: spec.owners[0].labelSelector.matchExpressions[0].operator",
            id="template-with-an-invalid-selector",
        ),
        pytest.param(
            job(),
            [pod(spec={"containers": [{"name": "c"}]})],
            FORBIDDEN,
            "requests neither resources nor claims, so no Reservation can hold anything for its replacement",
            id="pod-without-requests-and-claims",
        ),
        pytest.param(
            job(**supplied()), None, ("Failed", "MissingReservation"), '"kept" does not exist', id="no-such-reservation"
        ),
    ],
)
def test_a_job_that_cannot_succeed_fails_and_reserves_nothing(given, pods, wanted, text):
    world = World(job=given, pods=pods)
    assert outcome(world) == wanted
    assert text in world.status["message"]
    assert (wanted[1], world.status["message"]) == world.events[-1]
    assert (world.reservations, world.evictions) == ({}, [])


@pytest.mark.parametrize(
    ("spec", "status", "claims", "text"),
    [
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            {},
            [ClaimReach(key=("default", "shared"), pinned_node=OLD_NODE, other_nodes=False)],
            "claim default/shared is allocated on node node-0, and no other node can use its devices; let the",
            id="named-claim-of-one-node",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            {},
            [ClaimReach(key=("default", "shared"), exists=False)],
            "claim default/shared does not exist",
            id="named-claim-that-does-not-exist",
        ),
        pytest.param(
            {
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
                "schedulingGroup": {"podGroupName": "gang"},
            },
            {},
            [],
            "its claims belong to PodGroup gang",
            id="claims-of-a-pod-group",
        ),
        pytest.param(
            {},
            {"extendedResourceClaimStatus": {"resourceClaimName": "web-a-extended"}},
            [],
            "claim web-a-extended",
            id="extended-resources",
        ),
    ],
)
def test_devices_that_no_other_node_can_provide_forbid_the_migration(spec, status, claims, text):
    world = World(pods=[pod(spec=spec, status=status)], claims=claims)
    assert outcome(world) == FORBIDDEN
    assert text in world.status["message"]


@pytest.mark.parametrize(
    ("spec", "claims"),
    [
        pytest.param({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}, [], id="template"),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}], "containers": [{"name": "c"}]},
            [],
            id="template-and-no-requests",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            [ClaimReach(key=("default", "shared"))],
            id="named-claim-that-other-nodes-can-use",
        ),
        pytest.param({"schedulingGroup": {"podGroupName": "gang"}}, [], id="pod-group-without-claims"),
    ],
)
def test_the_reservation_requests_the_devices_of_the_pod(spec, claims):
    world = reserved(World(pods=[pod(spec=spec)], claims=claims))
    made = world.reservation["spec"]["template"]["spec"]
    assert made.get("resourceClaims") == spec.get("resourceClaims")
