"""Rule 6."""

import pytest

from dra.engine.claims.actions import Ungate
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import REPLACE
from dra.engine.claims.scheduling_gates import (
    DEMAND_MAX,
    MISSING_CLAIM_GRACE,
    OPENER_TURN,
    UNGATE_BATCH,
    UNGATE_INTERVAL,
    scheduling_gates_rule,
    ungate_without_claim,
)
from dra.engine.claims.window import CAPACITY
from dra.engine.instants import BIND_HORIZON, NEVER
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from tests.dra.engine.examples import (
    FOREIGN_GATE,
    JOB,
    NAMESPACE,
    NOON,
    PRESENT,
    claim,
    decided,
    gated,
    many,
    of_type,
    parked,
    starting,
    uid,
    unschedulable,
    view,
    waiting,
)
from tests.violations import for_each_case

VOLCANO_GATE = "scheduling.volcano.sh/queue-allocation-gate"


def ungated(plan):
    return [action.pod[1] for action in of_type(plan, Ungate)]


def entered(*entries, **form):
    return claim(workload=JOB, entered=True, list=[JOB, *entries], **form)


def let_go(of, *pods, now=NOON, **known):
    return ungated(decided(view(of, *pods, workload=PRESENT, **known), now=now))


# The claim is allocated


@for_each_case(
    [
        pytest.param(entered(gated("a")), [gated("a")], ["a"], id="listed"),
        pytest.param(entered(), [gated("a")], [], id="not-listed-yet"),
        pytest.param(
            claim(workload=JOB, entered=True, list=[JOB, *map(gated, "ab")]),
            [*map(gated, "ba")],
            ["a", "b"],
            id="in-order",
        ),
        pytest.param(
            entered(gated("a"), gated("b")), [gated("a"), gated("b", priority=1)], ["b", "a"], id="by-priority-first"
        ),
        pytest.param(
            entered(gated("a")),
            [gated("a", gates=(SCHEDULING_GATE, FOREIGN_GATE))],
            [],
            id="a-foreign-gate-is-waited-for",
        ),
        pytest.param(
            entered(), [gated("a", pod_group="g"), gated("b", pod_group="g")], ["a", "b"], id="gangs-are-never-listed"
        ),
        pytest.param(entered(gated("a"), deleting=True), [gated("a")], [], id="claim-under-deletion"),
        pytest.param(
            claim(workload=JOB, native=True, any_pod=True, list=[JOB]), [gated("a")], ["a"], id="any-pod-may-use-it"
        ),
    ]
)
def test_who_is_let_go_while_the_claim_is_allocated(of, pods, gone):
    assert let_go(of, *pods) == gone


def test_a_pod_is_let_go_as_the_version_that_was_decided_on():
    plan = decided(view(entered(gated("a")), gated("a", resource_version="77"), workload=PRESENT))
    assert of_type(plan, Ungate) == [Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version="77")]


def test_whom_another_of_its_claims_holds_up_waits_for_that():
    assert let_go(
        entered(gated("a"), gated("b")), gated("a"), gated("b"), awaiting_other_claims=frozenset({uid("a")})
    ) == ["b"]


def test_who_is_about_to_lose_its_entry_waits_for_the_next_one():
    up, crowd = many(starting, CAPACITY - 12, prefix="up"), many(gated, 10)
    gone = let_go(entered(*up, *crowd), *up, *crowd, starting("late"))
    assert gone == [f"p000{number}" for number in range(9)]


def test_a_scheduler_that_binds_a_pod_meanwhile_waits_for_few_patches_before_the_claim_is_decided_anew():
    crowd = many(gated, UNGATE_BATCH + 2)
    plan = decided(view(entered(*crowd), *crowd, workload=PRESENT))
    assert ungated(plan) == [each.name for each in crowd[:UNGATE_BATCH]]
    assert plan.wake_at == NOON + UNGATE_INTERVAL
    rest = crowd[UNGATE_BATCH:]
    plan = decided(
        view(entered(*crowd), *rest, *map(waiting, [each.name for each in crowd[:UNGATE_BATCH]]), workload=PRESENT)
    )
    assert ungated(plan) == [each.name for each in rest]


def test_never_more_than_a_list_of_pods_is_in_the_schedulers_hands():
    tried = many(waiting, RESERVED_FOR_MAX_SIZE - 1, prefix="w")
    assert let_go(entered(gated("a"), gated("b")), *tried, gated("a"), gated("b")) == ["a"]


def test_who_waits_until_the_scheduler_has_tried_others_is_looked_at_again():
    tried = many(waiting, RESERVED_FOR_MAX_SIZE, prefix="w")
    desired = scheduling_gates_rule(view(entered(gated("a")), gated("a"), *tried), REPLACE, NOON, Desired())
    assert (desired.ungate, desired.wake_at) == ((), NOON + BIND_HORIZON)


def test_pods_that_the_scheduler_has_given_up_keep_nobody_behind_the_gate():
    given_up = many(parked, RESERVED_FOR_MAX_SIZE, prefix="w")
    assert let_go(entered(gated("a"), gated("b")), *given_up, gated("a"), gated("b")) == ["a", "b"]


# The claim is not allocated: one opener at a time


@for_each_case(
    [
        pytest.param([gated("a"), gated("b")], ["a"], OPENER_TURN, id="the-first-opens"),
        pytest.param([gated("a"), gated("b", priority=1)], ["b"], OPENER_TURN, id="the-first-by-priority"),
        pytest.param([gated("b", created="1"), gated("a", created="2")], ["b"], OPENER_TURN, id="then-by-age"),
        pytest.param([waiting("o"), gated("a")], [], BIND_HORIZON, id="while-one-tries-the-others-wait"),
        pytest.param([unschedulable("o"), gated("a")], [], OPENER_TURN, id="an-unschedulable-one-has-ten-seconds"),
        pytest.param(
            [unschedulable("o", since=NOON - OPENER_TURN), gated("a")], ["a"], OPENER_TURN, id="then-it-passes-its-turn"
        ),
        pytest.param(
            [waiting("o", stage_since=NOON - BIND_HORIZON), gated("a")], ["a"], OPENER_TURN, id="a-silent-one-too"
        ),
        pytest.param([unschedulable("o", since=NOON - OPENER_TURN)], [], None, id="nobody-to-pass-it-to"),
        pytest.param(
            [waiting("o", stage_since=NOON - BIND_HORIZON), gated("a"), gated("b")],
            ["a"],
            OPENER_TURN,
            id="one-after-a-silent-one",
        ),
        pytest.param(
            [unschedulable("o", since=NOON - OPENER_TURN), gated("a"), gated("b"), gated("c", gang_annotation="g")],
            ["a", "b", "c"],
            OPENER_TURN,
            id="all-once-no-node-took-the-first",
        ),
        pytest.param(
            [gated("a", gang_annotation="g"), gated("b"), gated("c", gang_annotation="g")],
            ["a", "c"],
            OPENER_TURN,
            id="a-gang-of-another-scheduler",
        ),
        pytest.param(
            [gated("a", pod_group="g"), gated("b", pod_group="h"), gated("c", pod_group="g")],
            ["a", "c"],
            OPENER_TURN,
            id="a-gang-as-one",
        ),
        pytest.param(
            [waiting("o", gang_annotation="g"), gated("a"), gated("b", gang_annotation="g")],
            ["b"],
            BIND_HORIZON,
            id="a-late-pod-joins-the-turn-of-its-gang",
        ),
        pytest.param(
            [unschedulable("o", pod_group="g"), gated("a"), gated("b", pod_group="g")],
            ["b"],
            OPENER_TURN,
            id="of-a-pod-group-too",
        ),
        pytest.param(
            [
                unschedulable("o", gang_annotation="g", since=NOON - OPENER_TURN),
                waiting("p"),
                gated("b", gang_annotation="g"),
            ],
            [],
            BIND_HORIZON,
            id="not-once-the-turn-of-its-gang-is-over",
        ),
        pytest.param(
            [
                waiting("o", gang_annotation="g", stage_since=NOON - BIND_HORIZON),
                waiting("p", gang_annotation="g", stage_since=NOON - 1.0),
                gated("a"),
                gated("b", gang_annotation="g"),
            ],
            ["a"],
            OPENER_TURN,
            id="late-pods-do-not-extend-the-turn-of-their-gang",
        ),
        pytest.param(
            [gated("a", gates=(SCHEDULING_GATE, FOREIGN_GATE)), gated("b")],
            ["b"],
            OPENER_TURN,
            id="not-one-with-another-gate",
        ),
    ],
)
def test_who_opens_an_unallocated_claim(pods, gone, wakes):
    plan = decided(view(claim(workload=JOB, allocation=None), *pods, workload=PRESENT))
    assert ungated(plan) == gone
    assert plan.wake_at == (NEVER if wakes is None else NOON + wakes)


def test_an_autoscaler_sees_as_many_pods_as_a_node_takes():
    tried = many(unschedulable, 10, prefix="w", since=NOON - OPENER_TURN)
    opened = let_go(claim(workload=JOB, allocation=None), *tried, *many(gated, 300))
    assert len(opened) == DEMAND_MAX - len(tried)


BEHIND_VOLCANO = (VOLCANO_GATE, SCHEDULING_GATE)


@pytest.mark.parametrize(
    ("of", "gates", "stays"),
    [
        pytest.param(claim(workload=JOB, allocation=None), BEHIND_VOLCANO, (VOLCANO_GATE,), id="not-allocated"),
        pytest.param(entered(), BEHIND_VOLCANO, (VOLCANO_GATE,), id="allocated-and-not-listed"),
        pytest.param(entered(), (*BEHIND_VOLCANO, FOREIGN_GATE), None, id="a-third-gate-is-waited-for"),
        pytest.param(entered(), (VOLCANO_GATE,), None, id="without-our-gate"),
    ],
)
def test_a_gate_that_goes_last_is_not_waited_for(of, gates, stays):
    plan = decided(view(of, gated("a", gates=gates), gated("b", gates=gates), workload=PRESENT))
    assert [(each.pod[1], each.other_gates) for each in of_type(plan, Ungate)] == (
        [] if stays is None else [("a", stays), ("b", stays)]
    )


def test_a_missing_claim_keeps_no_pod_behind_a_gate_that_goes_last():
    pod = gated("a", gates=BEHIND_VOLCANO, first_seen=NOON - MISSING_CLAIM_GRACE)
    assert ungated(ungate_without_claim([pod], now=NOON)) == ["a"]


def test_gates_work_the_same_for_claims_of_nobody():
    assert let_go(claim(allocation=None), gated("a"), gated("b")) == ["a"]
    assert let_go(claim(list=[gated("a")]), gated("a"), gated("b")) == ["a"]


# Nothing to wait for


@pytest.mark.parametrize("form", [{"allocation": None}, {}], ids=["unallocated", "allocated"])
def test_the_pod_that_a_claim_was_generated_for_goes_at_once(form):
    assert let_go(claim(owner="a", **form), gated("a"), gated("b")) == ["a"]


@pytest.mark.parametrize(
    ("pod", "seconds", "gone", "wakes"),
    [
        pytest.param(gated("a"), MISSING_CLAIM_GRACE, ["a"], None, id="no-such-claim"),
        pytest.param(gated("a"), MISSING_CLAIM_GRACE - 0.5, [], NOON + 0.5, id="the-claim-may-come-by-another-watch"),
        pytest.param(
            gated("a", gates=(SCHEDULING_GATE, FOREIGN_GATE)), MISSING_CLAIM_GRACE, [], None, id="others-hold-it"
        ),
    ],
)
def test_pods_whose_claim_is_not_there(pod, seconds, gone, wakes):
    known = [gated(pod.name, gates=pod.gates, first_seen=NOON - seconds)]
    plan = ungate_without_claim(known, now=NOON)
    assert ungated(plan) == gone
    assert plan.wake_at == (NEVER if wakes is None else wakes)


def test_pods_without_a_claim_go_in_order():
    pods = [gated(name, first_seen=0.0, priority=priority) for name, priority in [("a", 0), ("b", 2), ("c", 1)]]
    assert ungated(ungate_without_claim(pods, now=NOON)) == ["b", "c", "a"]
