"""Rule 9: when an allocation is taken back because pods cannot use it, and when it is only told."""

import msgspec
import pytest

from dra.engine.claims.actions import Deallocate, LookUpPlacements
from dra.engine.claims.codes import Code
from dra.engine.claims.stuck_allocations import (
    BINDING_TIMEOUT,
    EVIDENCE_VALID,
    FULL_PATIENCE,
    LONGEST_PATIENCE,
    LOOKUP_BACKOFF,
    PATIENCE,
    SCHEDULER_VERDICT_WITHIN,
    UNJUDGED_PATIENCE,
    find_stuck_cause,
)
from dra.engine.claims.view import ObservedHistory, Placements, UsableNodes
from dra.engine.claims.window import EntryHistory
from dra.engine.instants import BIND_HORIZON, NEVER, SLOW_BIND_HORIZON
from dra.model.claims import AllocatedDeviceStatus, Condition, DeviceAllocationResult
from tests.dra.engine.examples import (
    FOREIGN,
    JOB,
    KEY,
    NOON,
    PRESENT,
    allocation,
    claim,
    codes,
    decided,
    gated,
    listed,
    of_type,
    started,
    uid,
    unschedulable,
    view,
    waiting,
)
from tests.violations import for_each_case

LOST = UsableNodes(inside=0, outside=3)
DELETED = UsableNodes(inside=0, outside=3, all_deleted=True)


def found(*, here=(), elsewhere=(), nowhere=(), at=NOON, **known):
    """What a live read has shown of the pods that wait for the claim."""
    pods = frozenset(uid(name) for name in (*here, *elsewhere, *nowhere))
    return Placements(
        allocation=known.pop("allocation", allocation()),
        at=at,
        read_at=known.pop("read_at", at),
        pods=pods,
        fit_here=frozenset(map(uid, here)),
        fit_elsewhere=frozenset(map(uid, elsewhere)),
        **known,
    )


A_ELSEWHERE = found(elsewhere=["a"])
"""A node that is no use to ``a`` now, and another one that would be."""


def long_unschedulable(name, *, seconds=PATIENCE, **known):
    return unschedulable(name, since=NOON - seconds, stage_since=NOON - seconds, **known)


def with_devices(*statuses, results=1, conditions=("Attached",), failures=("Broken",), **form):
    """A claim whose device has binding conditions, and what drivers say: the names of the conditions that are true."""
    shares = ["s1", "s2"][:results] if results > 1 else [None]
    base = msgspec.structs.replace(
        allocation().devices.results[0],
        binding_conditions=list(conditions) or None,
        binding_failure_conditions=list(failures),
    )
    each = [msgspec.structs.replace(base, request=f"r{share}", share_id=share) for share in shares]
    stamp = form.pop("stamp", "2026-11-20T11:59:00Z")
    of = claim(
        allocation=msgspec.structs.replace(allocation(stamp=stamp), devices=DeviceAllocationResult(results=each)),
        **form,
    )
    devices = [
        AllocatedDeviceStatus(
            driver=base.driver,
            pool=base.pool,
            device=base.device,
            share_id=share,
            conditions=[Condition(type=kind, status="True") for kind in true],
        )
        for share, true in zip([*shares, None], statuses, strict=False)
    ]
    return msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, devices=devices))


@for_each_case(
    [
        pytest.param(claim(), ["a"], A_ELSEWHERE, "NODES_LOST", id="its-nodes-are-gone"),
        pytest.param(
            claim(), ["a"], found(elsewhere=["a"], only_lacks_room=True), "NODES_FULL", id="its-nodes-are-full"
        ),
        pytest.param(
            claim(), ["a"], found(elsewhere=["a"], lost_device="gpu-0"), "DEVICES_LOST", id="its-devices-are-gone"
        ),
        pytest.param(claim(), ["a"], found(nowhere=["a"]), None, id="no-other-node-has-devices"),
        pytest.param(claim(), ["a"], None, None, id="not-known-yet"),
        pytest.param(claim(), ["a"], found(elsewhere=["a"], error="403"), None, id="not-to-be-found-out"),
        pytest.param(claim(), ["a"], found(here=["a"]), None, id="there-is-room-by-now"),
        pytest.param(claim(), ["a", "b"], found(here=["b"], elsewhere=["a"]), None, id="another-pod-could-use-it"),
        pytest.param(claim(), ["a", "b"], found(elsewhere=["a"], nowhere=["b"]), "NODES_LOST", id="b-is-hopeless"),
        pytest.param(claim(), [waiting("a")], A_ELSEWHERE, None, id="not-tried-yet"),
        pytest.param(claim(), [gated("a")], A_ELSEWHERE, None, id="gated-pods-have-not-been-tried"),
        pytest.param(claim(), ["a", started("b")], A_ELSEWHERE, None, id="somebody-consumes"),
        pytest.param(claim(list=[FOREIGN]), ["a"], A_ELSEWHERE, None, id="a-foreign-entry"),
        pytest.param(claim(list=[waiting("x")]), ["a"], A_ELSEWHERE, None, id="a-doubtful-entry"),
        pytest.param(claim(deleting=True), ["a"], A_ELSEWHERE, None, id="being-deleted-anyway"),
    ],
)
def test_when_the_allocation_itself_keeps_pods_waiting(of, pods, placements, cause):
    known = [long_unschedulable(pod, seconds=FULL_PATIENCE) if isinstance(pod, str) else pod for pod in pods]
    answer = find_stuck_cause(view(of, *known, placements=placements), now=NOON)
    assert (answer[0].name if answer else None) == cause
    if answer:
        assert answer[1] <= NOON


def deleted_for(seconds, *, podless=True):
    """The nodes have been deleted for so long, and no pod has been in the list for longer."""
    return ObservedHistory(nodes_deleted_since=NOON - seconds, podless_since=NOON - 1e4 if podless else None)


NO_NODE_LEFT = found(nowhere=["a"], nodes_deleted=True)
"""The nodes of the allocation are deleted, and no other node has such devices."""


@for_each_case(
    [
        pytest.param(claim(list=["guard"]), [long_unschedulable("a")], True, id="no-other-placement-is-needed"),
        pytest.param(
            claim(workload=JOB, entered=True, list=[JOB, "guard"]), [long_unschedulable("a")], True, id="of-a-workload"
        ),
        pytest.param(
            claim(workload=JOB, native=True, any_pod=True, list=[JOB]),
            [long_unschedulable("a")],
            True,
            id="any-pod",
        ),
        pytest.param(
            claim(), [waiting("a", stage_since=NOON - PATIENCE)], True, id="its-scheduler-never-says-unschedulable"
        ),
        pytest.param(
            claim(), [long_unschedulable("a", nominated="n1", nominated_since=NOON)], True, id="nominated-to-that-node"
        ),
        pytest.param(claim(), [waiting("a", stage_since=NOON)], False, id="patience-first"),
        pytest.param(claim(), [gated("a")], False, id="nobody-waits"),
        pytest.param(claim(list=[started("b")]), [long_unschedulable("a"), started("b")], False, id="consumed"),
        pytest.param(claim(list=[FOREIGN]), [long_unschedulable("a")], False, id="a-foreign-entry"),
    ]
)
def test_an_allocation_whose_nodes_were_deleted_is_freed_whatever_else_has_devices(of, pods, freed):
    known = {"usable_nodes": DELETED, "history": deleted_for(SLOW_BIND_HORIZON), "workload": PRESENT}
    plan = decided(view(of, *pods, placements=NO_NODE_LEFT, **known))
    assert bool(of_type(plan, Deallocate)) is freed


CONDITIONAL = DeviceAllocationResult(
    results=[
        msgspec.structs.replace(each, binding_conditions=["Attached"]) for each in allocation().devices.results or ()
    ]
)


@pytest.mark.parametrize(
    ("devices", "pod", "was_listed", "seconds"),
    [
        pytest.param(None, {}, False, 0.0, id="never-listed"),
        pytest.param(None, {"nominated": "n1"}, False, 0.0, id="never-listed-and-nominated"),
        pytest.param(None, {}, True, BIND_HORIZON, id="listed"),
        pytest.param(None, {"slow_binding": True}, True, BIND_HORIZON, id="a-wait-for-volumes-ends-with-the-node"),
        pytest.param(None, {"nominated": "n1"}, True, SLOW_BIND_HORIZON, id="a-plugin-may-hold-it-back"),
        pytest.param(CONDITIONAL, {}, True, SLOW_BIND_HORIZON, id="a-device-may-hold-it-back"),
    ],
)
def test_an_allocation_whose_nodes_were_deleted_waits_for_the_cycles_that_chose_them(devices, pod, was_listed, seconds):
    of = allocation() if devices is None else msgspec.structs.replace(allocation(), devices=devices)
    known = {
        "usable_nodes": DELETED,
        "placements": found(nowhere=["a"], nodes_deleted=True, allocation=of),
        "entry_histories": {uid("a"): EntryHistory(last_listed=NOON - 1e4)} if was_listed else {},
    }
    subject = (claim(list=["guard"], allocation=of), long_unschedulable("a", **pod))
    if seconds:
        early = decided(view(*subject, history=deleted_for(seconds - 1.0), **known))
        assert (of_type(early, Deallocate), early.wake_at) == ([], NOON + 1.0)
    (freed,) = of_type(decided(view(*subject, history=deleted_for(seconds), **known)), Deallocate)
    assert freed.confirm
    unknown = decided(view(*subject, history=ObservedHistory(podless_since=NOON - 1e4), **known))
    assert bool(of_type(unknown, Deallocate)) is (not seconds), "when they were deleted is unknown"


def test_the_wait_goes_on_when_the_time_of_binding_conditions_is_over():
    of = msgspec.structs.replace(allocation(), devices=CONDITIONAL)
    history = msgspec.structs.replace(deleted_for(1.0), allocated_at=NOON - BINDING_TIMEOUT)
    known = {
        "usable_nodes": DELETED,
        "placements": found(nowhere=["a"], nodes_deleted=True, allocation=of),
        "entry_histories": {uid("a"): EntryHistory(last_listed=NOON - 1e4)},
    }
    plan = decided(view(claim(list=["guard"], allocation=of), long_unschedulable("a"), history=history, **known))
    assert NOON < plan.wake_at <= NOON - 1.0 + SLOW_BIND_HORIZON


def test_an_entry_for_any_pod_admits_pods_until_no_cycle_is_left_that_chose_the_deleted_nodes():
    subject = (claim(workload=JOB, native=True, any_pod=True, list=[JOB]), long_unschedulable("a"))
    known = {"usable_nodes": DELETED, "workload": PRESENT, "placements": NO_NODE_LEFT}
    for seconds, freed in ((BIND_HORIZON - 1.0, False), (BIND_HORIZON, True)):
        plan = decided(view(*subject, history=deleted_for(seconds), **known))
        assert bool(of_type(plan, Deallocate)) is freed
        assert listed(plan) is None, "the entry stays"


def test_pods_are_unlisted_and_the_deletion_of_the_nodes_is_read_again_first():
    history = deleted_for(BIND_HORIZON - 1.0, podless=False)
    known = {"usable_nodes": DELETED, "placements": NO_NODE_LEFT}
    plan = decided(view(claim(list=[waiting("a")]), long_unschedulable("a"), history=history, **known))
    assert (listed(plan), of_type(plan, Deallocate)) == (["guards/train"], [])
    assert codes(plan) == [Code.ALLOCATION_STUCK]
    history = ObservedHistory(nodes_deleted_since=NOON - BIND_HORIZON, podless_since=NO_NODE_LEFT.at)
    plan = decided(view(claim(list=["guard"]), long_unschedulable("a"), history=history, **known))
    assert (of_type(plan, Deallocate), len(of_type(plan, LookUpPlacements))) == ([], 1)


def test_a_read_that_began_before_the_pods_were_unlisted_proves_nothing_however_late_it_ends():
    unlisted = NOON - 5.0
    history = ObservedHistory(nodes_deleted_since=NOON - BIND_HORIZON, podless_since=unlisted)
    known = {"usable_nodes": DELETED, "history": history}
    for began, freed in ((unlisted - 1.0, False), (unlisted + 1.0, True)):
        placements = found(nowhere=["a"], nodes_deleted=True, at=NOON - 1.0, read_at=began)
        plan = decided(view(claim(list=["guard"]), long_unschedulable("a"), placements=placements, **known))
        assert (bool(of_type(plan, Deallocate)), bool(of_type(plan, LookUpPlacements))) == (freed, not freed)


def test_a_gated_pod_that_was_listed_may_have_been_bound_as_well():
    pods = (long_unschedulable("a"), gated("b"))
    lately = {uid("b"): EntryHistory(last_listed=NOON - 1e4)}
    known = {"usable_nodes": DELETED, "placements": NO_NODE_LEFT, "entry_histories": lately}
    plan = decided(view(claim(list=["guard"]), *pods, history=deleted_for(BIND_HORIZON - 1.0), **known))
    assert not of_type(plan, Deallocate)


def test_the_deletion_of_the_nodes_is_read_live_first():
    known = {"usable_nodes": DELETED, "workload": PRESENT, "history": deleted_for(SLOW_BIND_HORIZON)}
    plan = decided(view(claim(), long_unschedulable("a"), **known))
    assert (of_type(plan, Deallocate), of_type(plan, LookUpPlacements)) == (
        [],
        [LookUpPlacements(claim=KEY, pods=(uid("a"),))],
    )
    earlier = found(nowhere=["a"], at=NOON - PATIENCE)
    plan = decided(view(claim(), long_unschedulable("a"), placements=earlier, **known))
    assert of_type(plan, LookUpPlacements), "this read was before the deletion"
    stale = msgspec.structs.replace(NO_NODE_LEFT, at=NOON - EVIDENCE_VALID - 1.0)
    plan = decided(view(claim(), long_unschedulable("a"), placements=stale, **known))
    assert (of_type(plan, Deallocate), len(of_type(plan, LookUpPlacements))) == ([], 1)


def test_a_node_that_is_back_keeps_the_allocation():
    here = UsableNodes(inside=1, outside=0)
    plan = decided(view(claim(), long_unschedulable("a"), usable_nodes=here, placements=NO_NODE_LEFT))
    assert not of_type(plan, Deallocate)


@for_each_case(
    [
        pytest.param(None, 0.0, id="judged-alone"),
        pytest.param(waiting("b"), 0.0, id="a-new-pod-does-not-keep-it"),
        pytest.param(waiting("b", stage_since=NOON - SCHEDULER_VERDICT_WITHIN), UNJUDGED_PATIENCE, id="never-judged"),
        pytest.param(waiting("b", stage_since=NOON - 1e6), UNJUDGED_PATIENCE, id="its-scheduler-does-not-run"),
        pytest.param(long_unschedulable("b", unschedulable_text="too few CPUs"), 0.0, id="judged-in-other-words"),
        pytest.param(long_unschedulable("b", nominated="n1", nominated_since=NOON), BIND_HORIZON, id="just-nominated"),
        pytest.param(
            long_unschedulable("b", nominated="n1", nominated_since=NOON - 1e4), 0.0, id="a-nomination-that-lasts"
        ),
    ]
)
def test_pods_that_nobody_has_judged_delay_it_and_no_more(other, seconds):
    pods = [long_unschedulable("a"), *([other] if other is not None else [])]
    placements = found(elsewhere=["a"], nowhere=["b"])
    cause, at = find_stuck_cause(view(claim(), *pods, placements=placements), now=NOON)
    assert (cause.name, at) == ("NODES_LOST", NOON + seconds)


@for_each_case(
    [
        pytest.param(with_devices(["Broken"]), 0.0, "BINDING_FAILED", id="failed"),
        pytest.param(with_devices(["Broken", "Attached"]), 0.0, "BINDING_FAILED", id="failed-after-all"),
        pytest.param(
            with_devices(["Broken"], conditions=()), 1e5, None, id="upstream-looks-at-results-with-conditions"
        ),
        pytest.param(with_devices(["Broken"], [], results=2), 0.0, "BINDING_FAILED", id="the-first-share-failed"),
        pytest.param(with_devices([], ["Broken"], results=2), 0.0, None, id="the-second-share-is-not-looked-at"),
        pytest.param(with_devices(), BINDING_TIMEOUT, "BINDING_TIMED_OUT", id="nobody-has-reported"),
        pytest.param(with_devices([]), BINDING_TIMEOUT, "BINDING_TIMED_OUT", id="reported-and-not-attached"),
        pytest.param(with_devices([]), BINDING_TIMEOUT - 1.0, None, id="there-is-time-left"),
        pytest.param(with_devices(["Attached"]), 1e5, None, id="attached"),
        pytest.param(with_devices([], stamp=None), 1e5, None, id="without-a-timestamp-kube-scheduler-waits-for-ever"),
    ]
)
def test_binding_conditions_are_read_as_kube_scheduler_reads_them(of, allocated, cause):
    history = ObservedHistory(allocated_at=NOON - allocated)
    answer = find_stuck_cause(view(of, long_unschedulable("a"), history=history), now=NOON)
    assert (answer[0].name if answer else None) == cause


def test_a_device_that_never_binds_is_given_back_though_no_other_node_is_known():
    of = with_devices([], workload=JOB, entered=True, list=[JOB, "guard"])
    history = ObservedHistory(allocated_at=NOON - BINDING_TIMEOUT, podless_since=NOON - SLOW_BIND_HORIZON)
    plan = decided(view(of, long_unschedulable("a"), workload=PRESENT, history=history))
    assert of_type(plan, Deallocate)


def test_the_end_of_the_binding_conditions_is_waited_for():
    of = with_devices([])
    plan = decided(
        view(of, long_unschedulable("a"), history=ObservedHistory(allocated_at=NOON), placements=found(nowhere=["a"]))
    )
    assert plan.wake_at <= NOON + BINDING_TIMEOUT


# The question


def test_nominated_pods_are_examined_too():
    pods = [long_unschedulable("a"), waiting("b", nominated="n1", nominated_since=NOON), waiting("c")]
    plan = decided(view(claim(), *pods, usable_nodes=LOST))
    assert of_type(plan, LookUpPlacements) == [LookUpPlacements(claim=KEY, pods=(uid("a"), uid("b")))]


@for_each_case(
    [
        pytest.param([unschedulable("a")], None, False, NOON + PATIENCE, id="patience-first"),
        pytest.param([long_unschedulable("a")], None, True, NEVER, id="then-the-question"),
        pytest.param([waiting("a")], None, False, NEVER, id="not-of-pods-that-nobody-has-judged"),
        pytest.param([long_unschedulable("a")], found(nowhere=["a"]), False, NOON + 60.0, id="again-later"),
        pytest.param([long_unschedulable("a")], found(nowhere=["a"], at=NOON - 60.0), True, NEVER, id="later"),
        pytest.param(
            [long_unschedulable("a")], found(nowhere=["a"], repeated=2), False, NOON + 240.0, id="ever-more-rarely"
        ),
        pytest.param(
            [long_unschedulable("a")], found(nowhere=["a"], repeated=50), False, NOON + LOOKUP_BACKOFF[1], id="at-last"
        ),
        pytest.param(
            [long_unschedulable("a"), long_unschedulable("b")],
            found(nowhere=["a"], repeated=50),
            False,
            NOON + 60.0,
            id="but-sooner-of-a-new-pod",
        ),
    ]
)
def test_when_placements_are_looked_for(pods, placements, asks, wake_at):
    plan = decided(view(claim(), *pods, usable_nodes=LOST, placements=placements))
    questions = of_type(plan, LookUpPlacements)
    assert questions == ([LookUpPlacements(claim=KEY, pods=(uid("a"),))] if asks else [])
    assert plan.wake_at == wake_at


@pytest.mark.parametrize(
    ("placements", "why"),
    [
        pytest.param(found(nowhere=["a"]), "no other node has both such devices and room", id="hopeless"),
        pytest.param(found(nowhere=["a"], error="no right"), "no right", id="not-to-be-found-out"),
        pytest.param(found(here=["a"]), None, id="the-scheduler-will-find-it"),
        pytest.param(found(nowhere=["b"]), None, id="said-of-pods-that-are-gone"),
        pytest.param(None, None, id="not-asked-yet"),
    ],
)
def test_an_allocation_that_stays_though_nobody_can_use_it_is_told(placements, why):
    plan = decided(view(claim(list=[waiting("a")]), long_unschedulable("a"), placements=placements))
    told = [r.note for r in plan.reasons if r.code is Code.ALLOCATION_UNUSABLE]
    assert [why in note for note in told] == ([True] if why else [])
    assert not plan.claim_writes


# Taking back


@pytest.mark.parametrize(
    ("placements", "revocations", "patience"),
    [
        pytest.param(A_ELSEWHERE, 0, PATIENCE, id="first-time"),
        pytest.param(A_ELSEWHERE, 2, 4 * PATIENCE, id="third-time"),
        pytest.param(A_ELSEWHERE, 5000, LONGEST_PATIENCE, id="for-the-n-th-time"),
        pytest.param(found(elsewhere=["a"], only_lacks_room=True), 0, FULL_PATIENCE, id="full-nodes-may-become-free"),
    ],
)
def test_patience_grows_with_each_attempt(placements, revocations, patience):
    pod = unschedulable("a", since=NOON)
    of = view(claim(list=[pod]), pod, placements=placements, history=ObservedHistory(revocations=revocations))
    assert find_stuck_cause(of, now=NOON)[1] == NOON + patience
    assert not decided(of, now=NOON + min(patience, 59.0) - 1.0).claim_writes


def test_an_allocation_is_taken_back_in_three_steps():
    pod = long_unschedulable("a")

    def step(*entries, podless_since, now, at=NOON):
        of = claim(workload=JOB, entered=True, list=[JOB, *entries])
        history = ObservedHistory(podless_since=podless_since)
        placements = found(elsewhere=["a"], at=at)
        plan = decided(view(of, pod, workload=PRESENT, placements=placements, history=history), now=now)
        assert Code.ALLOCATION_STUCK in codes(plan)
        return plan

    assert listed(step(pod, podless_since=None, now=NOON)) == ["jobs/train", "guards/train"]
    waits = step("guard", podless_since=NOON, now=NOON + 1.0)
    assert (waits.actions, waits.wake_at) == ((), NOON + BIND_HORIZON)
    asks = step("guard", podless_since=NOON, now=NOON + BIND_HORIZON, at=NOON + BIND_HORIZON - EVIDENCE_VALID - 1.0)
    assert [type(action) for action in asks.actions] == [LookUpPlacements]
    freed = step("guard", podless_since=NOON, now=NOON + BIND_HORIZON, at=NOON + BIND_HORIZON - EVIDENCE_VALID)
    assert of_type(freed, Deallocate) == [Deallocate(claim=KEY, confirm=True)]


def test_while_it_is_taken_back_nobody_new_is_let_in():
    pods = [long_unschedulable("a"), gated("b"), waiting("c")]
    of = claim(workload=JOB, entered=True, list=[JOB, "guard"])
    plan = decided(view(of, *pods, workload=PRESENT, placements=A_ELSEWHERE))
    assert not plan.claim_writes
    assert not [a for a in plan.actions if type(a).__name__ == "Ungate"]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({"slow_binding": True}, id="its-volumes-take-time"),
        pytest.param({"nominated": "n1", "nominated_since": NOON - 1e4}, id="its-nomination-hides-a-binding-cycle"),
    ],
)
def test_a_pod_that_may_be_bound_for_long(known):
    pod = long_unschedulable("a", **known)

    def at(now):
        placements = found(elsewhere=["a"], at=now)
        history = ObservedHistory(podless_since=NOON)
        return of_type(
            decided(view(claim(list=["guard"]), pod, placements=placements, history=history), now=now), Deallocate
        )

    assert not at(NOON + BIND_HORIZON)
    lasting = frozenset({(pod.uid, "n1")} if pod.nominated else ())
    assert at(NOON + SLOW_BIND_HORIZON) == [Deallocate(claim=KEY, confirm=True, nominated=lasting)]


@pytest.mark.parametrize(
    ("unbindable", "since", "freed"),
    [
        pytest.param({("a", "n1")}, NOON - 1e4, True, id="cannot-be-bound-there"),
        pytest.param({("a", "n1")}, NOON, True, id="nominated-a-bind-horizon-ago"),
        pytest.param({("a", "n1")}, NOON + 1.0, False, id="nominated-later"),
        pytest.param({("a", "n2")}, NOON - 1e4, False, id="nominated-elsewhere-by-now"),
        pytest.param({("b", "n1")}, NOON - 1e4, False, id="said-of-another-pod"),
        pytest.param(set(), NOON - 1e4, False, id="may-be-bound-there"),
    ],
)
def test_a_nomination_to_a_node_that_cannot_take_the_pod_ages(unbindable, since, freed):
    pod = long_unschedulable("a", nominated="n1", nominated_since=since)
    now = NOON + BIND_HORIZON
    pairs = frozenset((uid(name), node) for name, node in unbindable)
    placements = found(elsewhere=["a"], at=now, unbindable_nominations=pairs)
    of = claim(workload=JOB, entered=True, list=[JOB, "guard"])
    of = view(of, pod, workload=PRESENT, placements=placements, history=ObservedHistory(podless_since=NOON))
    expected = [Deallocate(claim=KEY, confirm=True, nominated=frozenset({(pod.uid, "n1")}))]
    assert of_type(decided(of, now=now), Deallocate) == (expected if freed else [])


def test_a_nomination_does_not_age_by_an_older_read():
    pod = long_unschedulable("a", nominated="n1", nominated_since=NOON - 1e4)
    pairs = frozenset({(pod.uid, "n1")})
    placements = found(elsewhere=["a"], at=NOON, unbindable_nominations=pairs)
    of = view(claim(list=["guard"]), pod, placements=placements, history=ObservedHistory(podless_since=NOON))
    plan = decided(of, now=NOON + BIND_HORIZON)
    assert (of_type(plan, Deallocate), bool(of_type(plan, LookUpPlacements))) == ([], True)


def test_a_nomination_does_not_age_where_a_device_cannot_be_bound():
    """No live read precedes that revocation."""
    pod = long_unschedulable("a", nominated="n1", nominated_since=NOON - 1e4)
    placements = found(elsewhere=["a"], unbindable_nominations=frozenset({(pod.uid, "n1")}))
    of = with_devices([], list=["guard"])
    history = ObservedHistory(allocated_at=NOON - BINDING_TIMEOUT, podless_since=NOON - BIND_HORIZON)
    assert not of_type(decided(view(of, pod, placements=placements, history=history)), Deallocate)
