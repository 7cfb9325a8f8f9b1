"""The status that each update of the extender means for one version of a Reservation, and when it is refused."""

import msgspec
import pytest

from dra.api.reservations.model import parse_reservation
from dra.api.reservations.well_known import ANNOTATION_PLACED_OVER, ANNOTATION_RESIZE_ALLOCATABLE
from dra.engine.reservations import reservation_info
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling import status_updates
from dra.engine.scheduling.status_updates import (
    AddOwner,
    PlaceReservation,
    RemoveOwner,
    ResizeReservation,
    WriteRefusedError,
)
from tests.dra.engine.reservations.examples import NOW, of
from tests.dra.engine.scheduling import examples
from tests.violations import for_each_case

POD = AssignedPod(uid="p", key=("default", "p"), amounts=of(1))
OTHER_POD = AssignedPod(uid="other", key=("default", "other"), amounts=of(1))
OTHER = {"name": "other", "namespace": "default", "uid": "other"}
ITSELF = {"name": "p", "namespace": "default", "uid": "p"}


def reservation(*, status=None, metadata=None, **spec):
    content = examples.reservation(**spec).content
    content["status"] |= status or {}
    content["metadata"] |= metadata or {}
    return parse_reservation(content)


def pending(**fields):
    return reservation(status={"phase": "Pending", "nodeName": "", "allocatable": {}}, **fields)


def placement(of_version, *, over=()):
    info = msgspec.structs.replace(reservation_info.from_reservation(of_version), node="n1")
    return PlaceReservation(msgspec.structs.replace(info, pre_allocated_pods=frozenset(over)), ())


def outcome(found, update):
    """Return the owners and the node of the status, why the update is refused, or None: no change."""
    try:
        status = status_updates.updated_status(found, update, now=NOW)
    except WriteRefusedError as error:
        return str(error)
    return None if status is None else ({owner.uid for owner in status.current_owners}, status.node_name)


IS_OVER = "reservation demo: is over"
NOT_AVAILABLE = "reservation demo: is not available any more"
ALLOCATED = "reservation has allocateOnce enabled and has already been allocated"
RESIZED = "reservation demo: was resized during the bind; the scheduler retries"


@for_each_case(
    [
        pytest.param(reservation(), AddOwner(POD), ({"p"}, "n1"), id="owner"),
        pytest.param(reservation(status={"currentOwners": [ITSELF]}), AddOwner(POD), None, id="owner-named-already"),
        pytest.param(reservation(status={"phase": "Failed"}), AddOwner(POD), NOT_AVAILABLE, id="owner-of-an-ended-one"),
        pytest.param(
            reservation(metadata={"deletionTimestamp": "2026-11-20T10:00:00Z"}),
            AddOwner(POD),
            NOT_AVAILABLE,
            id="owner-of-a-deleted-one",
        ),
        pytest.param(
            reservation(status={"currentOwners": [OTHER]}), AddOwner(POD), ALLOCATED, id="second-owner-of-allocate-once"
        ),
        pytest.param(
            reservation(status={"currentOwners": [OTHER]}, allocateOnce=False),
            AddOwner(POD),
            ({"p", "other"}, "n1"),
            id="second-owner",
        ),
        pytest.param(
            reservation(status={"currentOwners": [OTHER, ITSELF]}, allocateOnce=False),
            RemoveOwner(POD),
            ({"other"}, "n1"),
            id="owner-removed",
        ),
        pytest.param(reservation(), RemoveOwner(POD), None, id="owner-not-named"),
        pytest.param(pending(), placement(pending()), (set(), "n1"), id="placed"),
        pytest.param(reservation(), placement(pending()), None, id="placed-by-an-earlier-attempt"),
        pytest.param(pending(expires="2020-01-01T00:00:00Z"), placement(pending()), IS_OVER, id="placed-too-late"),
        pytest.param(
            pending(),
            placement(pending(template={"spec": {"containers": [{"name": "c"}]}})),
            RESIZED,
            id="placed-while-resized",
        ),
        pytest.param(
            reservation(), ResizeReservation(of(99)), "its resources changed again", id="resized-to-something-else"
        ),
        pytest.param(
            reservation(metadata={"annotations": {ANNOTATION_RESIZE_ALLOCATABLE: '{"cpu": "1"}'}}),
            ResizeReservation(of(1)),
            f"annotation {ANNOTATION_RESIZE_ALLOCATABLE}: cpu: unknown field; known are resources",
            id="resized-by-an-unreadable-annotation",
        ),
    ]
)
def test_an_update_is_decided_on_one_version(found, update, expected):
    assert outcome(found, update) == expected


def test_a_resize_holds_what_the_reservation_requests():
    found = reservation()
    requests = reservation_info.reservation_requests(found)
    status = status_updates.updated_status(found, ResizeReservation(requests), now=NOW)
    assert reservation_info.held_amounts(status) == requests
    resized = found.model_copy(update={"status": status})
    assert status_updates.updated_status(resized, ResizeReservation(requests), now=NOW) is None


@pytest.mark.parametrize(
    ("updates", "owners", "refused"),
    [
        pytest.param([], [], [], id="none"),
        pytest.param([RemoveOwner(POD)], [], [], id="without-effect"),
        pytest.param([AddOwner(POD)], ["p"], [], id="one"),
        pytest.param([AddOwner(POD), AddOwner(OTHER_POD)], ["p"], [1], id="the-second-is-refused-because-of-the-first"),
        pytest.param([AddOwner(OTHER_POD), RemoveOwner(OTHER_POD), AddOwner(POD)], ["p"], [], id="in-their-order"),
        pytest.param([ResizeReservation(of(99))], [], [0], id="all-refused"),
    ],
)
def test_updates_that_wait_for_one_status_go_out_in_one_write(updates, owners, refused):
    patch, refusals = status_updates.merge(reservation(), updates, now=NOW)
    assert list(refusals) == refused
    assert [owner["uid"] for owner in patch.get("currentOwners", ())] == owners


@pytest.mark.parametrize(
    ("update", "annotations"),
    [
        pytest.param(placement(pending(), over=("b", "a")), {ANNOTATION_PLACED_OVER: "a,b"}, id="over-running-pods"),
        pytest.param(placement(pending()), {}, id="on-free-capacity"),
        pytest.param(AddOwner(POD), {}, id="owner"),
    ],
)
def test_the_pods_under_a_reservation_are_named_before_its_status(update, annotations):
    assert status_updates.annotations_before(update) == annotations
