import msgspec
import pytest

from dra.api.configuration import PlaceholderMode
from dra.api.reservations.model import ReservationPhase
from dra.engine.instants import NEVER
from dra.engine.reservations.actions import (
    CreatePlaceholder,
    DeletePlaceholder,
    DeleteReservation,
    GetPod,
    PatchReservationStatus,
    RecordShortage,
)
from dra.engine.reservations.lifecycle import (
    NODE_CHECK_INTERVAL,
    SHORTAGE_GRACE_PERIOD,
    UNTRIED_SECONDS,
    decide,
    node_to_read,
)
from dra.engine.reservations.statuses import AssignedPod, status_patch, status_with_owner, status_without_owner
from dra.engine.reservations.view import ReservationPolicy, ReservationView
from dra.model.meta import ObjectMeta, Uid
from dra.model.pods import PodCondition, PodExtendedResourceClaimStatus
from dra.model.scheduling import Container, ResourceRequirements, SchedulerPod, SchedulerPodSpec, SchedulerPodStatus
from tests.dra.engine.reservations.examples import NOW, at, available, of, reservation
from tests.violations import for_each_case

HOUR = 3600.0
P = {"namespace": "default", "name": "p", "uid": "uid-p"}
CONSUMER = AssignedPod(uid=Uid("uid-p"), key=("default", "p"), amounts=of("200m", memory="400Mi"))


def placeholder(message="", *, bound=False):
    condition = PodCondition(type="PodScheduled", status="True" if bound else "False", message=message)
    return SchedulerPod(
        metadata=ObjectMeta(namespace="default", name="reservation-uid-demo", uid=Uid("uid-x")),
        status=SchedulerPodStatus(conditions=[condition] if message or bound else None),
    )


def actions(view, *, now=NOW + 1):
    return decide(view, at(now)).actions


def kinds(view, *, now=NOW + 1):
    return [type(action) for action in actions(view, now=now)]


def status_of(view, *, now=NOW + 1):
    (written,) = (
        action.body["status"] for action in actions(view, now=now) if isinstance(action, PatchReservationStatus)
    )
    return written


def test_what_waits_gets_a_placeholder():
    assert kinds(ReservationView(reservation=reservation())) == [CreatePlaceholder]
    assert kinds(ReservationView(reservation=reservation(), placeholder=placeholder())) == []


def test_why_it_finds_no_place_is_told_in_the_schedulers_words_once():
    view = ReservationView(reservation=reservation(), placeholder=placeholder("0/3 nodes are available"))
    (condition,) = status_of(view)["conditions"]
    assert (condition["reason"], condition["message"]) == ("Unschedulable", "0/3 nodes are available")
    told = reservation(status={"conditions": [condition]})
    assert kinds(ReservationView(reservation=told, placeholder=placeholder("0/3 nodes are available"))) == []


def untried(*, created="2027-01-15T08:00:00Z", node="", message=""):
    pod = placeholder(message)
    meta = msgspec.structs.replace(pod.metadata, creation_timestamp=created)
    spec = SchedulerPodSpec(node_name=node, scheduler_name="nobody")
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def test_a_placeholder_that_no_scheduler_tries_is_told_with_the_schedulers_name():
    view = ReservationView(reservation=reservation(), placeholder=untried())
    plan = decide(view, at(NOW + 1))
    assert (plan.actions, plan.wake_at_wall) == ((), NOW + UNTRIED_SECONDS)
    written = status_of(view, now=NOW + UNTRIED_SECONDS)
    (condition,) = written["conditions"]
    assert condition["message"] == (
        "no scheduler has tried its placeholder yet; check that a scheduler runs with the name nobody"
    )
    assert (condition["type"], condition["status"], condition["reason"]) == ("Scheduled", "False", "Unschedulable")
    told = ReservationView(reservation=reservation(status=written), placeholder=untried())
    assert decide(told, at(NOW + UNTRIED_SECONDS + 1)).actions == ()


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"node": "n1"}, id="bound"),
        pytest.param({"created": ""}, id="age-unknown"),
        pytest.param({"message": "0/3 nodes are available"}, id="tried"),
    ],
)
def test_no_scheduler_is_missed_where_one_has_tried_or_the_age_is_unknown(given):
    view = ReservationView(reservation=reservation(), placeholder=untried(**given))
    told = [each for each in actions(view, now=NOW + HOUR / 2) if isinstance(each, PatchReservationStatus)]
    assert not any("no scheduler" in str(each.body) for each in told)


def test_a_scheduler_that_places_others_is_not_missed():
    """Its queue is long: it comes to this placeholder, too."""
    view = ReservationView(reservation=reservation(), placeholder=untried(), scheduler_seen_at=NOW + 3)
    plan = decide(view, at(NOW + UNTRIED_SECONDS))
    assert (plan.actions, plan.wake_at_wall) == ((), NOW + 3 + UNTRIED_SECONDS)


def test_a_refused_placeholder_is_told_and_tried_again():
    view = ReservationView(reservation=reservation(), create_error="exceeded quota: q")
    assert kinds(view) == [CreatePlaceholder, PatchReservationStatus]
    assert status_of(view)["conditions"][0]["message"] == "exceeded quota: q"


def test_what_has_its_place_needs_no_placeholder():
    assert kinds(ReservationView(reservation=available(), placeholder=placeholder(bound=True))) == [DeletePlaceholder]


def test_what_is_over_ends_and_is_looked_at_until_then():
    assert decide(ReservationView(reservation=available()), at()).wake_at_wall == NOW + HOUR
    assert status_of(ReservationView(reservation=available()), now=NOW + HOUR)["phase"] == "Failed"
    assert status_of(ReservationView(reservation=reservation()), now=NOW + HOUR)["phase"] == "Failed"
    assert status_of(ReservationView(reservation=available(), node_gone=True))["phase"] == "Failed"


def test_what_has_ended_is_deleted_a_day_later():
    ready = {"type": "Ready", "status": "False", "reason": "Expired", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    over = reservation(status={"phase": "Failed", "conditions": [ready]})
    plan = decide(ReservationView(reservation=over, placeholder=placeholder()), at())
    assert ([type(action) for action in plan.actions], plan.wake_at_wall) == ([DeletePlaceholder], NOW + 24 * HOUR)
    assert kinds(ReservationView(reservation=over), now=NOW + 24 * HOUR) == [DeleteReservation]


def test_who_is_in_it_is_named_and_for_once_it_is_over_then():
    view = ReservationView(reservation=available(), assigned_pods=(CONSUMER,))
    written = status_of(view)
    assert (written["phase"], written["currentOwners"]) == ("Succeeded", [P])
    assert written["allocated"] == {"cpu": "200m", "memory": "400Mi"}


def listing(**more):
    return available(status={"currentOwners": [P], "allocated": {"cpu": "200m"}, **more}, allocateOnce=False)


def test_a_pod_that_is_named_and_not_seen_is_asked_about_before_anything_is_written():
    assert actions(ReservationView(reservation=listing())) == (GetPod(key=("default", "p"), uid=Uid("uid-p")),)


def test_a_pod_that_is_known_to_have_ended_is_named_no_more():
    assert status_of(ReservationView(reservation=listing(), ended_pods=frozenset({Uid("uid-p")}))) == {
        "currentOwners": [],
        "allocated": {"cpu": None},
    }


def test_a_pod_that_is_not_bound_yet_stays_named_and_ends_nothing():
    once = available(status={"currentOwners": [P], "allocated": {"cpu": "200m", "memory": "400Mi"}})
    waiting = msgspec.structs.replace(CONSUMER, binding=True)
    assert kinds(ReservationView(reservation=once, unbound_pods=(waiting,))) == []


def test_a_pod_that_was_never_bound_leaves_it_as_it_was():
    once = available(status={"currentOwners": [P], "allocated": {"cpu": "200m"}})
    written = status_of(ReservationView(reservation=once, never_bound=frozenset({Uid("uid-p")})))
    assert "phase" not in written


def test_one_in_deletion_is_left_alone():
    going = available()
    going = going.model_copy(
        update={"metadata": going.metadata.model_copy(update={"deletion_timestamp": going.metadata.creation_timestamp})}
    )
    plan = decide(ReservationView(reservation=going), at(NOW + 2 * HOUR))
    assert (plan.wake_at, plan.wake_at_wall) == (NEVER, NEVER)
    assert kinds(ReservationView(reservation=going)) == []


def test_what_cannot_be_read_says_so_and_is_not_placed():
    bad = reservation(annotations={"scheduling.koordinator.sh/reservation-resize-allocatable": "{"})
    view = ReservationView(reservation=bad)
    assert kinds(view) == [PatchReservationStatus]
    (condition,) = status_of(view)["conditions"]
    assert (condition["type"], condition["status"]) == ("Readable", "False")


def test_entering_names_one_more_and_leaving_takes_it_back():
    empty = available(allocateOnce=False)
    entered = status_with_owner(empty, CONSUMER)
    assert status_patch(empty.status, entered) == {
        "currentOwners": [P],
        "allocated": {"cpu": "200m", "memory": "400Mi"},
    }
    inside = empty.model_copy(update={"status": entered})
    assert status_with_owner(inside, CONSUMER) is None
    left = status_without_owner(inside, CONSUMER)
    assert (left.current_owners, left.allocated, left.phase) == ((), {}, ReservationPhase.AVAILABLE)
    assert status_patch(entered, left) == {"currentOwners": [], "allocated": {"cpu": None, "memory": None}}
    assert status_without_owner(empty, CONSUMER) is None


def test_a_template_with_devices_is_not_placed_where_they_cannot_be_held():
    template = {"spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}}
    view = ReservationView(reservation=reservation(template=template))
    assert kinds(view) == [PatchReservationStatus]
    assert status_of(view)["conditions"][0]["message"].startswith("spec.template.spec.resourceClaims: ")
    assert kinds(ReservationView(reservation=reservation(template=template), placeholder=placeholder())) == [
        DeletePlaceholder,
        PatchReservationStatus,
    ]
    (place,) = actions(
        ReservationView(reservation=reservation(template=template), policy=ReservationPolicy(supports_claims=True))
    )
    assert place.manifest["spec"]["resourceClaims"] == template["spec"]["resourceClaims"]


@pytest.mark.parametrize(
    ("containers", "is_placed"),
    [
        pytest.param([{"name": "c"}], False, id="devices-alone"),
        pytest.param([{"name": "c", "resources": {"requests": {"cpu": "1"}}}], True, id="devices-and-amounts"),
    ],
)
def test_a_placeholder_that_stays_needs_amounts_to_keep(containers, is_placed):
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}]
    template = {"spec": {"containers": containers, "resourceClaims": claims}}
    view = ReservationView(
        reservation=reservation(template=template),
        policy=ReservationPolicy(supports_claims=True, placeholders=PlaceholderMode.YIELDING),
    )
    assert (kinds(view) == [CreatePlaceholder]) is is_placed
    assert is_placed or "set resources.requests" in status_of(view)["conditions"][0]["message"]


def test_shares_of_gpus_are_not_placed_where_they_cannot_be_handed_over():
    template = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"koordinator.sh/gpu": "50"}}}]}}
    held = reservation(template=template)
    assert kinds(ReservationView(reservation=held)) == [PatchReservationStatus]
    assert status_of(ReservationView(reservation=held))["conditions"][0]["message"].startswith(
        "spec.template.spec: shares of GPUs (koordinator.sh/gpu) are reserved in mode replace only"
    )
    assert kinds(ReservationView(reservation=held, policy=ReservationPolicy(supports_claims=True))) == [
        CreatePlaceholder
    ]


LSR = {"labels": {"koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod"}}


def bound(*, annotations=None, labels=LSR["labels"]):
    return {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]},
    }


@pytest.mark.parametrize("made", [reservation, available], ids=["pending", "available"])
def test_cpus_that_are_held_as_an_amount_are_told_once(made):
    found = ReservationView(reservation=made(template=bound()), policy=ReservationPolicy(translates_requests=True))
    plan = decide(found, at())
    (patch,) = plan.actions
    (condition,) = [each for each in patch.body["status"]["conditions"] if each["type"] == "ClaimsHeld"]
    assert (condition["status"], condition["reason"]) == ("False", "AmountsOnly")
    assert plan.wake_at == -NEVER
    (event,) = patch.events
    assert (event.reason, event.message) == ("AmountsOnly", condition["message"])
    status = {"conditions": patch.body["status"]["conditions"]}
    told = ReservationView(
        reservation=made(template=bound(), status=status), policy=ReservationPolicy(translates_requests=True)
    )
    assert PatchReservationStatus not in kinds(told)


REPLACE = ReservationPolicy(translates_requests=True, supports_claims=True)


def cards(percent):
    asked = {"limits": {"koordinator.sh/gpu": percent}}
    return {"spec": {"containers": [{"name": "a", "resources": asked}]}}


@pytest.mark.parametrize("made", [reservation, available], ids=["pending", "available"])
@pytest.mark.parametrize(
    ("template", "claim"),
    [
        pytest.param(cards("800"), "koord-gpu-c800-r800-s8", id="cards"),
        pytest.param(bound(), "koord-cpu-2-default-lsr", id="cpus"),
    ],
)
def test_claims_that_serve_one_of_several_owner_pods_are_told_once(made, template, claim):
    found = ReservationView(reservation=made(template=template, allocateOnce=False), policy=REPLACE)
    (patch,) = actions(found)
    (condition,) = [each for each in patch.body["status"]["conditions"] if each["type"] == "ClaimsHeld"]
    assert (condition["status"], condition["reason"]) == ("True", "ClaimsHeldAsWhole")
    assert f"({claim})" in condition["message"]
    assert [each.reason for each in patch.events] == ["ClaimsHeldAsWhole"]
    status = {"conditions": patch.body["status"]["conditions"]}
    told = ReservationView(reservation=made(template=template, status=status, allocateOnce=False), policy=REPLACE)
    assert all(not getattr(each, "events", ()) for each in actions(told))


@pytest.mark.parametrize("made", [reservation, available], ids=["pending", "available"])
def test_devices_of_extended_resources_that_go_with_the_placeholder_are_told_once(made):
    extended = PodExtendedResourceClaimStatus(resource_claim_name="gone-soon")
    before = placeholder(bound=True)
    pod = msgspec.structs.replace(
        before, status=msgspec.structs.replace(before.status, extended_resource_claim_status=extended)
    )
    (patch,) = actions(ReservationView(reservation=made(), placeholder=pod))
    (condition,) = [each for each in patch.body["status"]["conditions"] if each["type"] == "ClaimsHeld"]
    assert (condition["status"], condition["reason"]) == ("False", "ExtendedResourcesNotHeld")
    assert condition["message"].startswith("The devices of claim gone-soon are not held")
    status = {"conditions": patch.body["status"]["conditions"]}
    for gone in (pod, None):
        told = ReservationView(reservation=made(status=status, allocateOnce=False), placeholder=gone, policy=REPLACE)
        assert PatchReservationStatus not in kinds(told)


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        pytest.param(bound(), {"supports_claims": True}, id="claims-are-held"),
        pytest.param(bound(), {"translates_requests": False}, id="no-pod-gets-a-claim"),
        pytest.param(bound(labels={}), {}, id="not-bound"),
        pytest.param(bound(annotations={"reserve.dra/cpus": "own"}), {}, id="claims-of-its-own"),
        pytest.param(
            bound(annotations={"scheduling.koordinator.sh/resource-spec": "nonsense"}), {}, id="pods-would-be-refused"
        ),
    ],
)
def test_nothing_is_told_where_amounts_are_all(template, fields):
    policy = ReservationPolicy(**{"translates_requests": True, **fields})
    view = ReservationView(reservation=available(template=template), policy=policy)
    assert actions(view) == ()


WAITING = msgspec.structs.replace(CONSUMER, binding=True)


@for_each_case(
    [
        pytest.param({}, NEVER, id="nothing-is-awaited"),
        pytest.param({"unbound_pods": (WAITING,), "reread_at": 70.0}, 70.0, id="unbound-pods-are-to-be-read"),
        pytest.param({"expected_until": 15.0}, 15.0, id="a-binding-is-expected"),
        pytest.param({"eligible_at": 300.0}, 300.0, id="a-pod-may-become-a-candidate"),
        pytest.param({"create_retry_at": 12.0}, 12.0, id="a-placeholder-was-refused"),
        pytest.param({"create_retry_at": 10.0}, NEVER, id="the-pause-is-over"),
        pytest.param({"node_is_read": True}, 10.0 + NODE_CHECK_INTERVAL, id="the-watch-lacks-a-node-that-exists"),
        pytest.param({"reread_at": 70.0, "expected_until": 15.0}, 15.0, id="the-earliest-counts"),
        pytest.param({"ended_pods": frozenset({Uid("uid-p")})}, -NEVER, id="the-status-is-written-first"),
    ]
)
def test_when_a_reservation_is_decided_about_again(fields, wake_at):
    named = available(
        allocateOnce=False, status={"currentOwners": [P], "allocated": {"cpu": "200m", "memory": "400Mi"}}
    )
    view = ReservationView(**{"reservation": named, "assigned_pods": (CONSUMER,), **fields})
    if "ended_pods" in fields:
        view = msgspec.structs.replace(view, assigned_pods=())
    assert decide(view, at(instant=10.0)).wake_at == wake_at


def test_unbound_pods_are_read_before_anything_is_decided():
    view = ReservationView(
        reservation=available(), unbound_pods=(WAITING,), reread_at=10.0, newly_placed=True, node_gone=True
    )
    plan = decide(view, at(NOW + HOUR, instant=10.0))
    assert plan.actions == (GetPod(key=("default", "p"), uid=Uid("uid-p")),)
    assert (plan.reasons, plan.wake_at) == ((), -NEVER)


@pytest.mark.parametrize(
    ("retry_at", "created"),
    [pytest.param(10.1, False, id="during-the-pause"), pytest.param(10.0, True, id="after-the-pause")],
)
def test_a_refused_placeholder_is_created_again_after_a_pause_and_reported_meanwhile(retry_at, created):
    view = ReservationView(reservation=reservation(), create_error="exceeded quota: q", create_retry_at=retry_at)
    actions = {type(action) for action in decide(view, at(instant=10.0)).actions}
    assert actions == {PatchReservationStatus} | ({CreatePlaceholder} if created else set())


@pytest.mark.parametrize(
    ("fields", "node"),
    [
        pytest.param({}, "", id="the-watch-shows-the-node"),
        pytest.param({"node_gone": True}, "n", id="the-watch-lacks-the-node"),
        pytest.param({"node_gone": True, "node_is_read": True}, "", id="a-read-has-confirmed-that"),
        pytest.param({"node_gone": False, "node_is_read": True}, "", id="a-read-has-refuted-that"),
    ],
)
def test_a_node_is_read_live_before_its_reservation_ends(fields, node):
    assert node_to_read(ReservationView(reservation=available(), **fields)) == node


def test_a_new_placement_is_reported_with_whatever_else_is_decided():
    plan = decide(ReservationView(reservation=available(), newly_placed=True, assigned_pods=(CONSUMER,)), at())
    (event,) = plan.reasons
    assert (event.reason, event.message) == ("Scheduled", "Successfully assigned demo to n")
    assert [type(action) for action in plan.actions] == [PatchReservationStatus]


@pytest.mark.parametrize(
    ("message", "since", "recorded", "wake_at"),
    [
        pytest.param("", None, (), NOW + HOUR, id="nothing-lacks"),
        pytest.param("0/1", None, (RecordShortage(since=NOW + 1),), NOW + 1 + SHORTAGE_GRACE_PERIOD, id="it-begins"),
        pytest.param("0/1", NOW, (), NOW + SHORTAGE_GRACE_PERIOD, id="it-lasts"),
        pytest.param("", NOW, (RecordShortage(since=None),), NOW + HOUR, id="it-ends"),
    ],
)
def test_a_shortage_is_remembered_from_its_beginning_to_its_end(message, since, recorded, wake_at):
    view = ReservationView(
        reservation=available(allocateOnce=False),
        policy=ReservationPolicy(placeholders=PlaceholderMode.YIELDING),
        placeholder=requesting(placeholder(message, bound=not message)),
        shortage_since=since,
    )
    plan = decide(view, at())
    assert tuple(action for action in plan.actions if isinstance(action, RecordShortage)) == recorded
    assert plan.wake_at_wall == wake_at


def requesting(pod):
    """Return a placeholder that requests all of the capacity of `available`."""
    resources = ResourceRequirements(requests={"cpu": "500m", "memory": "800Mi"})
    return msgspec.structs.replace(pod, spec=SchedulerPodSpec(containers=[Container(name="c", resources=resources)]))
