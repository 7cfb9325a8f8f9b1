"""Phases, expiry, status and collection: specs/koordinator.md A.4 to A.6 and A.11."""

from datetime import UTC, datetime

import pytest

from dra.api.object_fields import to_document
from dra.api.reservations.model import ReservationPhase
from dra.engine.instants import NEVER
from dra.engine.reservations.phases import (
    TERMINAL_PHASES,
    TRANSITIONS,
    Trigger,
    deletion_time,
    expiration_time,
    expired_status,
    next_status,
)
from dra.engine.reservations.statuses import AssignedPod, bound_status, synced_status
from dra.model import quantities
from dra.model.meta import Uid
from tests.dra.engine.reservations.examples import available, of, reservation
from tests.violations import combinations, for_each_case, named

CREATED = datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp()
HOUR = 3600.0
DAY = 24 * HOUR
TOMORROW = "2027-01-16T20:00:00Z"  # 36 hours after the creation


@for_each_case(
    combinations(
        [
            pytest.param({"ttl": "1h"}, HOUR, id="ttl"),
            pytest.param({"ttl": None}, DAY, id="24h-where-neither-is-given"),
            pytest.param({"ttl": None, "expires": TOMORROW}, 36 * HOUR, id="expires-alone-is-not-cut-to-24h"),
            pytest.param({"ttl": "1h", "expires": TOMORROW}, HOUR, id="both-ttl-earlier"),
            pytest.param({"ttl": "48h", "expires": TOMORROW}, 36 * HOUR, id="both-expires-earlier"),
            pytest.param({"ttl": "0s"}, NEVER, id="ttl-0-never"),
            pytest.param({"ttl": "0s", "expires": TOMORROW}, 36 * HOUR, id="ttl-0-and-expires"),
            pytest.param({"ttl": "0s", "expires": "2020-01-01T00:00:00Z"}, None, id="ttl-0-and-expires-in-the-past"),
            pytest.param({"ttl": "500ms"}, 0.5, id="less-than-a-second"),
        ],
        named([reservation, available], ["pending", "available"]),
    )
)
def test_when_a_reservation_ends(spec, ends, make):
    found = expiration_time(make(**spec))
    assert found == (datetime(2020, 1, 1, tzinfo=UTC).timestamp() if ends is None else CREATED + ends)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_ended_does_not_end_again(phase):
    ended = available(status={"phase": phase}, ttl="1h")
    assert expiration_time(ended) == NEVER
    assert expired_status(ended, now=CREATED + DAY, node_gone=True) is None


@pytest.mark.parametrize(
    ("found", "now", "node_gone", "ends"),
    [
        pytest.param(reservation(ttl="1h", status={"nodeName": "n"}), HOUR, False, True, id="pending-with-a-node"),
        pytest.param(reservation(ttl="1h"), HOUR, False, True, id="pending-without"),
        pytest.param(available(ttl="1h"), HOUR, False, True, id="available"),
        pytest.param(available(ttl="1h"), 0, True, True, id="node-gone"),
        pytest.param(available(ttl="1h"), HOUR - 1, False, False, id="fresh"),
        pytest.param(reservation(ttl="1h"), 0, True, False, id="a-node-it-never-had"),
    ],
)
def test_expiry_fails_a_reservation_and_leaves_what_was(found, now, node_gone, ends):
    status = expired_status(found, now=CREATED + now, node_gone=node_gone)
    if not ends:
        assert status is None
        return
    ready = status.condition("Ready")
    assert (status.phase, ready.status, ready.reason) == (ReservationPhase.FAILED, "False", "Expired")
    assert (status.allocatable, status.node_name) == (found.status.allocatable, found.status.node_name)
    assert ready.last_transition_time.timestamp() == int(CREATED + now)


def test_a_condition_that_was_false_already_keeps_its_transition():
    was = {"type": "Ready", "status": "False", "reason": "X", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    status = expired_status(reservation(ttl="1h", status={"conditions": [was]}), now=CREATED + HOUR)
    ready = status.condition("Ready")
    assert (ready.last_transition_time.timestamp(), ready.last_probe_time.timestamp()) == (CREATED, CREATED + HOUR)


@for_each_case(combinations(list(Trigger), sorted(TERMINAL_PHASES)))
def test_nothing_leads_out_of_a_terminal_phase(happening, phase):
    assert (phase, happening) not in TRANSITIONS
    assert next_status(available(status={"phase": phase.value}).status, happening, now=CREATED) is None


def test_who_was_placed_is_never_called_unschedulable_again():
    fresh = reservation().status
    refused = next_status(fresh, Trigger.UNSCHEDULABLE, now=CREATED, message="0/3 nodes are available")
    assert (refused.condition("Scheduled").reason, refused.phase) == ("Unschedulable", ReservationPhase.PENDING)
    assert next_status(refused, Trigger.UNSCHEDULABLE, now=CREATED + 9, message="0/3 nodes are available") is None
    scheduled = reservation(status={"conditions": [{"type": "Scheduled", "status": "True"}]}).status
    assert next_status(scheduled, Trigger.UNSCHEDULABLE, now=CREATED) is None


def test_what_cannot_be_read_is_told_and_taken_back():
    told = next_status(available().status, Trigger.UNREADABLE, now=CREATED, message="spec.owners[0]: …")
    assert (told.phase, told.condition("Readable").status) == (ReservationPhase.AVAILABLE, "False")
    assert next_status(told, Trigger.READABLE, now=CREATED).condition("Readable").status == "True"
    assert next_status(available().status, Trigger.READABLE, now=CREATED) is None


def test_waiting_is_as_pending():
    assert (
        next_status(reservation(status={"phase": "Waiting"}).status, Trigger.BOUND, now=CREATED).phase
        is ReservationPhase.AVAILABLE
    )


def test_a_bound_reservation_says_where_it_is_and_what_it_holds_as_it_was_written():
    status = bound_status(reservation(), node="n", now=CREATED)
    assert to_document(status) == {
        "phase": "Available",
        "nodeName": "n",
        "allocatable": {"cpu": "500m", "memory": "800Mi"},
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": "Capacity is reserved on node n",
                "lastProbeTime": "2027-01-15T08:00:00Z",
                "lastTransitionTime": "2027-01-15T08:00:00Z",
            }
            for kind, reason in (("Scheduled", "Scheduled"), ("Ready", "Available"))
        ],
    }


def test_a_resized_reservation_holds_what_the_annotation_says():
    annotations = {"scheduling.koordinator.sh/reservation-resize-allocatable": '{"resources": {"cpu": "2"}}'}
    status = bound_status(reservation(annotations=annotations), node="n", now=CREATED)
    assert status.allocatable == {"cpu": "2", "memory": "800Mi"}


def test_what_failed_or_is_being_deleted_cannot_be_bound():
    assert bound_status(reservation(status={"phase": "Failed"}), node="n", now=CREATED) is None
    doomed = reservation()
    meta = doomed.metadata.model_copy(update={"deletion_timestamp": datetime(2027, 1, 15, 9, tzinfo=UTC)})
    assert bound_status(doomed.model_copy(update={"metadata": meta}), node="n", now=CREATED) is None


def consumer(name="p", cpu="200m", memory="400Mi", **fields):
    taken = {**of(cpu, memory=memory), quantities.PODS: quantities.NANOS_PER_UNIT}
    return AssignedPod(uid=Uid(f"uid-{name}"), key=("default", name), amounts=taken, **fields)


def test_the_vector_of_the_manual():
    status = synced_status(available(), [consumer()], now=CREATED)
    assert status.allocated == {"cpu": "200m", "memory": "400Mi"}
    assert [(each.namespace, each.name, each.uid) for each in status.current_owners] == [("default", "p", "uid-p")]
    ready = status.condition("Ready")
    assert (status.phase, ready.status, ready.reason) == (ReservationPhase.SUCCEEDED, "False", "Succeeded")


def test_the_vector_of_two_owners():
    big = available(allocateOnce=False, status={"allocatable": {"cpu": "6", "memory": "20Gi"}})
    two = [consumer("q", "2", "10Gi"), consumer("p", "2", "10Gi")]
    status = synced_status(big, two, now=CREATED)
    assert (status.phase, status.allocated) == (ReservationPhase.AVAILABLE, {"cpu": "4", "memory": "20Gi"})
    assert [each.name for each in status.current_owners] == ["p", "q"]
    again = big.model_copy(update={"status": status})
    assert synced_status(again, reversed(two), now=CREATED + 5) is None
    shrunk = synced_status(again, two[:1], now=CREATED + 5)
    assert (shrunk.phase, shrunk.allocated) == (ReservationPhase.AVAILABLE, {"cpu": "2", "memory": "10Gi"})
    assert synced_status(big.model_copy(update={"status": shrunk}), [], now=CREATED + 9).allocated == {}


def test_what_owners_take_beyond_is_told_and_what_is_not_held_is_not():
    greedy = AssignedPod(
        uid=Uid("u"), key=("d", "g"), amounts={**of(8, gpu=1), quantities.PODS: quantities.NANOS_PER_UNIT}
    )
    assert synced_status(available(), [greedy], now=CREATED).allocated == {"cpu": "8"}


def test_one_whose_binding_is_under_way_is_named_and_ends_nothing():
    status = synced_status(available(), [consumer(binding=True)], now=CREATED)
    assert (status.phase, len(status.current_owners)) == (ReservationPhase.AVAILABLE, 1)
    later = available().model_copy(update={"status": status})
    assert synced_status(later, [], now=CREATED, never_bound={Uid("uid-p")}).phase is ReservationPhase.AVAILABLE
    assert synced_status(later, [], now=CREATED).phase is ReservationPhase.SUCCEEDED, "it came and went unseen"


def test_pods_that_were_here_before_do_not_use_it_up():
    over = available(annotations={"reserve.dra/placed-over": "uid-p"})
    assert synced_status(over, [consumer()], now=CREATED).phase is ReservationPhase.AVAILABLE
    assert synced_status(over, [consumer(), consumer("q")], now=CREATED).phase is ReservationPhase.SUCCEEDED


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_only_an_available_one_has_consumers(phase):
    assert synced_status(available(status={"phase": phase}), [consumer()], now=CREATED) is None


def ended(phase, *conditions):
    return available(status={"phase": phase, "conditions": list(conditions)})


def ready(reason, probe, transition):
    times = {"lastProbeTime": probe, "lastTransitionTime": transition}
    return {"type": "Ready", "status": "False", "reason": reason, **times}


EARLY, LATE = "2027-01-15T09:00:00Z", "2027-01-15T10:00:00Z"


@for_each_case(
    [
        pytest.param(ended("Failed", ready("Expired", LATE, EARLY)), False, CREATED + HOUR + DAY, id="expired"),
        pytest.param(
            ended("Succeeded", ready("Succeeded", LATE, EARLY)), False, CREATED + 2 * HOUR + DAY, id="succeeded"
        ),
        pytest.param(ended("Failed", ready("Other", EARLY, EARLY)), False, CREATED + HOUR + DAY, id="failed-otherwise"),
        pytest.param(ended("Failed"), False, CREATED + DAY, id="failed-without-a-word"),
        pytest.param(ended("Failed", ready("Expired", EARLY, EARLY)), True, 0.0, id="node-gone"),
        pytest.param(available(), True, NEVER, id="not-ended-yet"),
        pytest.param(reservation(), False, NEVER, id="pending"),
    ]
)
def test_when_what_has_ended_is_deleted(found, node_gone, when):
    assert deletion_time(found, node_gone=node_gone) == when
