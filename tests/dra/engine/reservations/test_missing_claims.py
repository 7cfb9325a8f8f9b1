"""Pods that lack claims: no Reservation admits such a pod, and its claim's creation wakes the Reservations at once."""

import msgspec
import pytest

from dra.api.configuration import PlaceholderMode
from dra.engine.reservations import lifecycle
from dra.engine.reservations.actions import PatchReservationStatus
from dra.engine.reservations.pod_claims import MissingClaims
from dra.engine.reservations.reservation_cache import ReservationCache
from dra.engine.reservations.view import ReservationPolicy
from dra.model.claims import ResourceClaim
from dra.model.meta import ObjectMeta, Uid
from dra.model.nodes import Node
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.reservations.examples import at, available_content, observed

R, P = Uid("uid-demo"), Uid("uid-p")
CLAIM = ("default", "shared")
OWNER = {"namespace": "default", "name": "p", "uid": P}
NODES = {("", "n"): msgspec.convert({"metadata": {"name": "n"}}, Node)}
HELD = {"cpu": "500m", "memory": "800Mi"}


def owner_pod(*, gates=("reserve.dra/reservation",), statuses=(), entry=None):
    content = {
        "metadata": {**OWNER, "resourceVersion": "1"},
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "resourceClaims": [entry or {"name": "device", "resourceClaimName": "shared"}],
            "containers": [{"name": "c", "resources": {"requests": HELD}}],
        },
        "status": {"resourceClaimStatuses": [*statuses]},
    }
    return msgspec.convert(content, SchedulerPod)


def claim(namespace, name):
    return ResourceClaim(metadata=ObjectMeta(namespace=namespace, name=name))


def placeholder():
    content = {
        "metadata": {
            "namespace": "default",
            "name": "reservation-uid-demo",
            "uid": "uid-x",
            "ownerReferences": [
                {
                    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                    "kind": "Reservation",
                    "name": "demo",
                    "uid": R,
                    "controller": True,
                }
            ],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": HELD}}]},
    }
    return msgspec.convert(content, SchedulerPod)


def cache_with(pod, *, claims, status=None):
    cache = ReservationCache(ReservationPolicy(placeholders=PlaceholderMode.YIELDING), claims=claims)
    reservation = available_content(status=status or {}, owners=[{"object": OWNER}], allocateOnce=False)
    cache.observe(observed(reservation), now=0.0)
    cache.observe_pod(placeholder())
    cache.observe_pod(pod)
    cache.dirty.clear()
    return cache


def named(cache):
    plan = lifecycle.decide(cache.view(R, nodes=NODES), at())
    bodies = [a.body["status"] for a in plan.actions if isinstance(a, PatchReservationStatus)]
    return [each["uid"] for body in bodies for each in body.get("currentOwners", ())]


def test_a_pod_is_named_as_soon_as_its_claim_is_created():
    claims = set()
    cache = cache_with(owner_pod(), claims=claims)
    assert named(cache) == []
    claims.add(CLAIM)
    cache.observe_claim(claim(*CLAIM))
    assert set(cache.dirty) == {R}
    assert named(cache) == [P]


def test_a_claim_that_no_pod_lacked_wakes_no_reservation():
    cache = cache_with(owner_pod(), claims={CLAIM})
    assert named(cache) == [P]
    cache.observe_claim(claim(*CLAIM))
    cache.observe_claim(claim("default", "another"))
    assert set(cache.dirty) == set()


def test_the_deletion_of_a_claim_wakes_the_reservation_that_names_its_pod():
    claims = {CLAIM}
    cache = cache_with(owner_pod(), claims=claims, status={"currentOwners": [OWNER], "allocated": HELD})
    cache.observe_live_pod(R, P, owner_pod(), now=0.0)
    cache.dirty.clear()
    claims.clear()
    cache.forget_claim(claim("default", "another"))
    assert set(cache.dirty) == set()
    cache.forget_claim(claim(*CLAIM))
    assert set(cache.dirty) == {R}
    assert cache.view(R, nodes=NODES).pods_without_claims == {P}


@pytest.mark.parametrize(
    ("statuses", "removed"),
    [
        pytest.param([], False, id="a-claim-that-is-generated-in-a-moment"),
        pytest.param([{"name": "device"}], True, id="a-template-of-which-no-claim-is-needed"),
    ],
)
def test_the_gate_stays_only_while_a_reservation_may_still_admit_the_pod(statuses, removed):
    pod = owner_pod(entry={"name": "device", "resourceClaimTemplateName": "own"}, statuses=statuses)
    cache = cache_with(pod, claims=set())
    assert named(cache) == []
    assert (cache.gate_to_remove(P, nodes=NODES) is not None) is removed


def test_nothing_is_left_of_a_pod_that_is_gone():
    missing = MissingClaims(())
    assert missing.lacks_claims(owner_pod())
    assert missing.pods_waiting_for(CLAIM) == {P}
    missing.forget(P)
    assert missing.pods_waiting_for(CLAIM) == set()
