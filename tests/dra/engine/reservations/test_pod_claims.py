"""Owner pods are nominated only with claims that exist: cluster autoscaler's loop ends with an error otherwise."""

import msgspec
import pytest

from dra.api.configuration import PlaceholderMode
from dra.engine.reservations.actions import (
    ClearReservationAllocated,
    PatchReservationStatus,
    SetReservationAllocated,
)
from dra.engine.reservations.lifecycle import decide
from dra.engine.reservations.pod_claims import has_unnamed_claim, is_never_named, missing_claims
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.reservations.view import ReservationPolicy, ReservationView
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.reservations.examples import at, available, of

NAMED = {"name": "device", "resourceClaimName": "shared"}
TEMPLATE = {"name": "device", "resourceClaimTemplateName": "own"}
GENERATED = {"name": "device", "resourceClaimName": "p-device-x"}
NOT_NEEDED = {"name": "device"}
HELD = {"cpu": "500m", "memory": "800Mi"}
OWNER = {"namespace": "default", "name": "p", "uid": "uid-p"}


PLACEHOLDER = msgspec.convert(
    {
        "metadata": {"namespace": "default", "name": "reservation-uid-demo", "uid": "uid-x"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": HELD}}]},
    },
    SchedulerPod,
)


def pod(*entries, statuses=(), nominated="", annotations=None):
    content = {
        "metadata": {**OWNER, "labels": {"app": "demo"}, "annotations": annotations or {}},
        "spec": {"resourceClaims": [*entries], "containers": [{"name": "c", "resources": {"requests": HELD}}]},
        "status": {
            "resourceClaimStatuses": [*statuses],
            "nominatedNodeName": nominated,
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }
    return msgspec.convert(content, SchedulerPod)


@pytest.mark.parametrize(
    ("found", "missing", "unnamed", "never_named"),
    [
        pytest.param(pod(), [], False, False, id="no-claims"),
        pytest.param(pod(NAMED), ["shared"], False, False, id="shared-claim"),
        pytest.param(pod(TEMPLATE), [], True, False, id="claim-not-generated-yet"),
        pytest.param(pod(TEMPLATE, statuses=[GENERATED]), ["p-device-x"], False, False, id="generated-claim"),
        pytest.param(pod(TEMPLATE, statuses=[NOT_NEEDED]), [], True, True, id="no-claim-needed"),
    ],
)
def test_claims_of_a_pod_where_no_claim_exists(found, missing, unnamed, never_named):
    assert missing_claims(found, existing=()) == tuple(("default", name) for name in missing)
    assert missing_claims(found, existing={("default", name) for name in missing}) == ()
    assert (has_unnamed_claim(found), is_never_named(found)) == (unnamed, never_named)


def view_of(found, *, named, lacking):
    """Return the view of a Reservation beside one pod, which is its candidate or has been named by its status."""
    status = {"currentOwners": [OWNER], "allocated": HELD} if named else {}
    reservation = available(status=status, allocateOnce=False, owners=[{"object": OWNER}])
    assigned = AssignedPod(uid=Uid("uid-p"), key=("default", "p"), amounts=of("500m", memory="800Mi"), binding=True)
    return ReservationView(
        reservation=reservation,
        policy=ReservationPolicy(placeholders=PlaceholderMode.YIELDING),
        placeholder=PLACEHOLDER,
        node=msgspec.convert({"metadata": {"name": reservation.status.node_name}}, Node),
        unbound_pods=(assigned,) if named else (),
        candidate_pods=() if named else (found,),
        pods={Uid("uid-p"): found},
        pods_without_claims=frozenset({Uid("uid-p")}) if lacking else frozenset(),
    )


def kinds(view):
    return {type(action) for action in decide(view, at()).actions}


def owners_written(view):
    written = [a.body["status"] for a in decide(view, at()).actions if isinstance(a, PatchReservationStatus)]
    return [each["currentOwners"] for each in written if "currentOwners" in each]


def test_a_candidate_is_named_only_when_its_claims_exist():
    assert owners_written(view_of(pod(NAMED), named=False, lacking=False)) == [[OWNER]]
    assert owners_written(view_of(pod(NAMED), named=False, lacking=True)) == []


def test_a_named_pod_with_all_claims_is_nominated():
    assert SetReservationAllocated in kinds(view_of(pod(NAMED), named=True, lacking=False))


def test_a_named_pod_whose_claim_was_deleted_is_not_nominated_and_is_named_no_longer():
    view = view_of(pod(NAMED), named=True, lacking=True)
    assert SetReservationAllocated not in kinds(view)
    assert owners_written(view) == [[]]


def test_a_pod_that_was_nominated_before_its_claim_was_deleted_loses_its_nomination():
    found = pod(NAMED, nominated="n1")
    view = msgspec.structs.replace(
        view_of(found, named=False, lacking=True), candidate_pods=(), stale_pods=(found,), unbound_pods=()
    )
    assert ClearReservationAllocated in kinds(view)
