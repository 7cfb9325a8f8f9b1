"""Rule 12, the way out: what a person may override, and what not."""

import pytest

from dra.engine.claims.actions import Deallocate, LookUpPod, PatchMetadata, SetReservedFor
from dra.engine.claims.codes import Code
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import LostNode, ObservedHistory, VanishedPod, WorkloadPhase, WorkloadState, lost_node_entry
from dra.engine.claims.window import EntryHistory
from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON, WATCH_OUTAGE_UNNOTICED
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import FORCE_RELEASE
from tests.dra.engine.examples import (
    CLAIM_UID,
    FOREIGN,
    JOB,
    KEY,
    NOON,
    PRESENT,
    claim,
    codes,
    decided,
    gated,
    listed,
    many,
    of_type,
    started,
    starting,
    uid,
    view,
    waiting,
)
from tests.violations import for_each_case

AWAY = LostNode(name="n1", boot_id="b1")
FORBIDDEN = WorkloadState(phase=WorkloadPhase.FORBIDDEN)


def forced(of=CLAIM_UID, **form):
    return claim(annotations={FORCE_RELEASE: of}, **form)


def asked(of, *pods, pods_on_silent_nodes=(), **known):
    return decided(view(of, *pods, pods_on_silent_nodes=frozenset(uid(name) for name in pods_on_silent_nodes), **known))


def note_of(plan, code):
    return next(reason.note for reason in plan.reasons if reason.code is code)


@for_each_case(
    [
        pytest.param(
            forced(list=[FOREIGN]), [], {}, "entry things.example.com/x", id="an-entry-of-somebody-nobody-knows"
        ),
        pytest.param(
            forced(list=[waiting("a")]),
            [],
            {"asked": NOON, "entry_histories": {uid("a"): EntryHistory(listed_since=NOON - 300.0)}},
            "entry pods/a",
            id="a-pod-that-contradicts-its-entry",
        ),
        pytest.param(
            forced(workload=JOB, entered=True, list=[JOB]),
            [],
            {"workload": FORBIDDEN},
            "entry jobs.batch/train",
            id="a-workload-that-may-not-be-read",
        ),
        pytest.param(
            forced(list=[started("a")]),
            [started("a")],
            {"pods_on_silent_nodes": ["a"]},
            "pod a on node n1",
            id="a-pod-on-a-node-that-does-not-report-in",
        ),
        pytest.param(
            forced(workload=JOB, entered=True, list=[JOB, "guard"]),
            [started("a"), starting("b")],
            {"pods_on_silent_nodes": ["a", "b"], "workload": PRESENT},
            "entry jobs.batch/train, pod b on node n1, pod a on node n1",
            id="a-whole-workload-on-lost-nodes",
        ),
        pytest.param(
            forced(list=[lost_node_entry("n1", "b1")]),
            [],
            {"lost_nodes": (AWAY,)},
            "node n1",
            id="pods-that-vanished-from-a-lost-node",
        ),
        pytest.param(forced(deleting=True, list=[FOREIGN]), [], {}, "entry things.example.com/x", id="under-deletion"),
        pytest.param(forced(), [], {}, "nothing", id="allocated-and-unused"),
    ]
)
def test_what_is_in_doubt_is_overridden_and_named(of, pods, known, overridden):
    plan = asked(of, *pods, **known)
    free, note = plan.claim_writes
    stranded = frozenset(uid(name) for name in known.get("pods_on_silent_nodes", ()))
    assert free == Deallocate(claim=KEY, confirm=True, given_up=stranded)
    assert isinstance(note, PatchMetadata)
    assert (dict(note.annotations)[FORCE_RELEASE], note.finalizers) == (None, ())
    assert note_of(plan, Code.FORCE_RELEASED).endswith(f"overridden: {overridden}")


@for_each_case(
    [
        pytest.param(forced("yes", list=[FOREIGN]), [], {}, Code.FORCE_RELEASE_IGNORED, id="no-uid"),
        pytest.param(forced("", list=[FOREIGN]), [], {}, Code.FORCE_RELEASE_IGNORED, id="empty"),
        pytest.param(forced("uid-of-another", list=[FOREIGN]), [], {}, Code.FORCE_RELEASE_IGNORED, id="copied"),
        pytest.param(
            forced(list=[FOREIGN]), [started("a")], {}, Code.FORCE_RELEASE_BLOCKED, id="a-pod-runs-on-a-ready-node"
        ),
        pytest.param(
            forced(list=[FOREIGN]), [starting("a")], {}, Code.FORCE_RELEASE_BLOCKED, id="a-pod-starts-on-a-ready-node"
        ),
        pytest.param(
            forced(list=[FOREIGN]),
            [started("a"), started("b")],
            {"pods_on_silent_nodes": ["a"]},
            Code.FORCE_RELEASE_BLOCKED,
            id="one-of-two-is-lost",
        ),
        pytest.param(
            forced(list=[started("a")]),
            [],
            {"other_users": (started("a"),)},
            Code.FORCE_RELEASE_BLOCKED,
            id="a-listed-pod-that-does-not-reference-it-may-use-it-in-a-way-that-we-do-not-know",
        ),
    ]
)
def test_what_is_known_is_not_overridden(of, pods, known, code):
    plan = asked(of, *pods, **known)
    assert code in codes(plan)
    assert not of_type(plan, Deallocate)
    assert not of_type(plan, PatchMetadata)


def test_who_is_in_the_way_is_named_but_not_hundreds_of_them():
    plan = asked(forced(list=[FOREIGN]), *many(started, 300))
    assert "300 pods use the claim on Ready nodes (p0000, p0001, p0002, p0003, p0004 and 295 more)" in note_of(
        plan, Code.FORCE_RELEASE_BLOCKED
    )


def test_a_pod_that_was_listed_lately_is_taken_off_the_list_and_waited_for():
    plan = asked(forced(list=[FOREIGN, waiting("a")]), waiting("a"))
    assert listed(plan) == ["guards/train", "things/x"]
    assert codes(plan) == [Code.FORCE_RELEASE_WAITS]
    off = {uid("a"): EntryHistory(last_listed=NOON - 10.0)}
    plan = asked(forced(list=["guard", FOREIGN]), waiting("a"), entry_histories=off)
    assert (plan.claim_writes, plan.wake_at) == ((), NOON - 10.0 + BIND_HORIZON)
    off = {uid("a"): EntryHistory(last_listed=NOON - BIND_HORIZON)}
    plan = asked(forced(list=["guard", FOREIGN]), waiting("a"), entry_histories=off)
    assert [type(write) for write in plan.claim_writes] == [Deallocate, PatchMetadata]


def test_a_gated_pod_that_is_listed_may_have_been_let_go_by_now():
    plan = asked(forced(list=[FOREIGN, gated("a")]), gated("a"))
    assert listed(plan) == ["guards/train", "things/x"]
    assert codes(plan) == [Code.FORCE_RELEASE_WAITS]


def test_meanwhile_no_gate_is_opened():
    plan = asked(forced(list=[FOREIGN, gated("b"), waiting("a")]), waiting("a"), gated("b"))
    assert [type(action) for action in plan.actions] == [SetReservedFor]


@pytest.mark.parametrize("policy", [REPLACE, ALONGSIDE], ids=["replace", "alongside"])
def test_an_annotation_that_has_nothing_to_free_goes_so_that_it_does_not_strike_the_next_allocation(policy):
    plan = decided(view(forced(allocation=None, protected=True), waiting("a")), policy=policy)
    assert plan.claim_writes == (PatchMetadata(claim=KEY, annotations=((FORCE_RELEASE, None),)),)
    assert plan.reasons == ()


def test_foreign_entries_that_are_references_of_any_form_can_be_named():
    strange = ConsumerReference(api_group="Ü", resource="\n", name="x" * 4000, uid="u")
    plan = asked(forced(list=[strange]))
    assert of_type(plan, Deallocate)


def test_a_listed_pod_that_our_watch_has_not_shown_is_looked_up_first():
    plan = asked(forced(list=[waiting("a")]))
    assert [look.uid for look in of_type(plan, LookUpPod)] == [uid("a")]
    assert not plan.claim_writes
    assert Code.FORCE_RELEASE_WAITS in codes(plan)


@pytest.mark.parametrize(
    ("node", "after", "freed"),
    [
        pytest.param("n1", 99.0, False, id="from-a-node-that-reports-in"),
        pytest.param("n1", 101.0, False, id="until-that-node-has-been-read"),
        pytest.param("", 189.0, False, id="from-a-node-that-nobody-knows"),
        pytest.param("", 190.0, True, id="until-time-has-told-all-that-it-can"),
    ],
)
def test_a_pod_that_vanished_is_waited_for(node, after, freed):
    """A person vouches for what cannot be known: where all nodes report in, such a pod has ended before long."""
    of = view(forced(list=["guard"]), vanished=(VanishedPod(uid("a"), node=node, since=NOON - after),))
    plan = decided(of)
    assert bool(of_type(plan, Deallocate)) is freed
    assert (Code.FORCE_RELEASE_WAITS in codes(plan)) is not freed


@pytest.mark.parametrize(("seconds", "freed"), [(BIND_HORIZON, False), (SLOW_BIND_HORIZON, True)])
def test_a_pod_that_is_nominated_for_good_does_not_keep_the_claim_for_ever(seconds, freed):
    pod = waiting("a", nominated="n1", nominated_since=NOON - seconds)
    plan = asked(forced(list=["guard"]), pod, entry_histories={pod.uid: EntryHistory(last_listed=NOON - seconds)})
    assert [write.nominated for write in of_type(plan, Deallocate)] == [frozenset({(pod.uid, "n1")})] * freed


@pytest.mark.parametrize(("seconds", "freed"), [(BIND_HORIZON - 1.0, False), (BIND_HORIZON, True)])
def test_pods_that_stay_listed_under_deletion_do_not_keep_the_claim_for_ever(seconds, freed):
    pod = waiting("a")
    plan = asked(
        forced(deleting=True, list=["guard", pod]), pod, history=ObservedHistory(deleting_since=NOON - seconds)
    )
    assert bool(of_type(plan, Deallocate)) is freed


def test_under_deletion_the_guard_stays_while_a_pod_that_was_listed_may_be_bound():
    """With an empty list the stock controller beside us would free the claim under the binding."""
    pod = waiting("a")
    of = forced(deleting=True, list=["guard"])
    known = {
        "entry_histories": {pod.uid: EntryHistory(last_listed=NOON)},
        "history": ObservedHistory(deleting_since=NOON),
    }
    plan = decided(view(of, pod, **known), policy=ALONGSIDE)
    assert Code.FORCE_RELEASE_WAITS in codes(plan)
    assert [of_type(plan, kind) for kind in (SetReservedFor, Deallocate)] == [[], []]


def test_no_slot_is_left_to_the_scheduler_while_the_allocation_is_taken_back():
    """Else the entry of a pod that does not move is put in and taken out by turns (machine seed 867546463)."""
    things = [
        ConsumerReference(api_group="example.com", resource="things", name=f"t{n}", uid=f"t{n}") for n in range(251)
    ]
    stuck = starting("a", stage_since=NOON - 90.0)
    runs = [started("b"), started("c")]
    of = forced(workload=JOB, entered=True, list=[JOB, "guard", *things, *runs, stuck])
    known = {"workload": PRESENT, "pods_on_silent_nodes": frozenset(uid(name) for name in "abc")}
    lately = {uid("d"): EntryHistory(last_listed=NOON)}
    plan = decided(view(of, *runs, stuck, waiting("d"), entry_histories=lately, **known), policy=ALONGSIDE)
    assert Code.FORCE_RELEASE_WAITS in codes(plan)
    assert listed(plan) is None


@pytest.mark.parametrize(("seconds", "freed"), [(BIND_HORIZON, False), (BIND_HORIZON + WATCH_OUTAGE_UNNOTICED, True)])
def test_a_listed_pod_that_only_a_live_read_has_shown_may_be_about_to_be_bound(seconds, freed):
    """The pods watch may be behind: then the pod does reference the claim (machine seed 839754299)."""
    pod = waiting("a")
    plan = asked(
        forced(list=[pod]),
        asked=NOON,
        entry_histories={pod.uid: EntryHistory(listed_since=NOON - seconds, by_others=True)},
    )
    assert bool(of_type(plan, Deallocate)) is freed
    assert (Code.FORCE_RELEASE_WAITS in codes(plan)) is not freed
    assert freed or plan.wake_at <= NOON - seconds + BIND_HORIZON + WATCH_OUTAGE_UNNOTICED
