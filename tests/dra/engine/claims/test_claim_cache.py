from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims.claim_cache import NO_CLAIM, ClaimCache
from dra.engine.claims.claim_state import LIVE_READ_VALID
from dra.engine.claims.consumers import SCHEDULING_GATE, Stage
from dra.engine.claims.view import EntryKind
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON
from dra.model import workload_reservations
from dra.model.meta import Uid
from tests.dra.engine.examples import (
    DATA,
    FOREIGN_GATE,
    JOB,
    JOBS,
    KEY,
    NAMESPACE,
    NOON,
    allocation,
    claim,
    finished,
    observe_all,
    pod,
    stages,
    started,
    uid,
    waiting,
)

TRAIN = WorkloadKey(JOBS, NAMESPACE, "train")


def kinds(world):
    return [entry.kind for entry in world.view(KEY, now=NOON).entries]


# Pods:


def test_a_pod_moves_through_the_stages(world):
    observe_all(world, claim(), pod("a", gates=[SCHEDULING_GATE]))
    assert stages(world) == {"gated": ["a"]}
    for version, form, stage in [
        (2, {}, "waiting"),
        (3, {"node": "n1"}, "starting"),
        (4, {"node": "n1", "ready": "12:00"}, "started"),
    ]:
        observe_all(world, pod("a", version=version, **form))
        assert stages(world) == {stage: ["a"]}
    observe_all(world, pod("a", version=5, node="n1", phase="Succeeded"))
    assert stages(world) == {}


def test_a_pod_may_be_known_before_its_claim(world):
    observe_all(world, pod("a"))
    assert world.view(KEY, now=NOON) is None
    observe_all(world, claim())
    assert stages(world) == {"waiting": ["a"]}


@pytest.mark.parametrize(
    ("version", "stage"),
    [
        pytest.param(4, "waiting", id="older"),
        pytest.param(5, "waiting", id="the-same"),
        pytest.param(6, "starting", id="newer"),
        pytest.param(10, "starting", id="versions-are-numbers"),
        pytest.param("v6", "starting", id="versions-that-cannot-be-compared-are-believed"),
    ],
)
def test_the_answers_to_our_own_writes_overtake_the_watch(world, version, stage):
    observe_all(world, claim(), pod("a", version=5))
    observe_all(world, pod("a", version=version, node="n1"))
    assert stages(world) == {stage: ["a"]}


def test_another_pod_of_the_same_name_is_another_pod(world):
    observe_all(world, claim(), pod("a", node="n1", version=5), pod("a", identity=Uid("second"), version=7))
    assert stages(world) == {"starting": ["a"], "waiting": ["a"]}
    world.forget_pod(uid("a"))
    assert stages(world) == {"waiting": ["a"]}


def test_a_pod_that_is_forgotten_concerns_all_its_claims(world):
    observe_all(world, claim(), claim("data"), pod("a", claims=("train", "data")))
    world.forget_pod(uid("a"))
    assert set(world.dirty) == {KEY, (NAMESPACE, "data")}
    world.dirty.clear()
    world.forget_pod(uid("a"))
    assert not world.dirty


def test_a_claim_that_is_generated_later_finds_its_pod(world):
    observe_all(world, pod("a", claims=(), templates={"gpu": ""}))
    assert not list(world.keys())
    observe_all(world, pod("a", version=2, claims=(), templates={"gpu": "train"}), claim(owner="a"))
    assert stages(world) == {"waiting": ["a"]}


@pytest.mark.parametrize(
    ("before", "after", "dirty"),
    [
        pytest.param({}, {"node": "n1"}, True, id="bound"),
        pytest.param({"node": "n1"}, {"node": "n1", "ready": "12:00"}, True, id="started"),
        pytest.param({"node": "n1"}, {"node": "n1", "deleting": True}, True, id="deleted-while-bound"),
        pytest.param({}, {"unschedulable": "no node"}, True, id="the-scheduler-has-spoken"),
        pytest.param({"unschedulable": "a"}, {"unschedulable": "b"}, True, id="and-says-something-else"),
        pytest.param(
            {"gates": [SCHEDULING_GATE, FOREIGN_GATE]}, {"gates": [SCHEDULING_GATE]}, True, id="only-our-gate-is-left"
        ),
        pytest.param(
            {"node": "n1", "ready": "1"}, {"node": "n1", "ready": "1", "phase": "Running"}, False, id="running"
        ),
        pytest.param({}, {"annotations": {"x": "1"}}, False, id="annotated"),
        pytest.param({"node": "n1"}, {"node": "n1"}, False, id="nothing-that-we-read"),
    ],
)
def test_only_news_that_a_rule_asks_for_make_a_claim_dirty(world, before, after, dirty):
    observe_all(world, claim(), pod("a", **before))
    world.observe_pod(pod("a", version=2, **after), now=NOON)
    assert set(world.dirty) == ({KEY} if dirty else set())


def test_even_silent_news_keep_the_version_that_ungating_needs(world):
    observe_all(
        world,
        claim(),
        pod("a", gates=[SCHEDULING_GATE]),
        pod("a", gates=[SCHEDULING_GATE], version=2, annotations={"x": "1"}),
    )
    assert world.view(KEY, now=NOON).gated[0].resource_version == "2"


def test_pods_of_one_claim_are_no_business_of_another(world):
    observe_all(world, claim(), claim("data"))
    world.observe_pod(pod("a"), now=NOON)
    assert set(world.dirty) == {KEY}
    assert stages(world, (NAMESPACE, "data")) == {}


def test_pods_behind_our_gate_that_name_no_claim_are_remembered(world):
    observe_all(
        world, pod("a", claims=(), gates=[SCHEDULING_GATE]), pod("b", claims=(), gates=[SCHEDULING_GATE, FOREIGN_GATE])
    )
    assert [c.name for c in world.gated_without_claim((NAMESPACE, NO_CLAIM))] == ["a"]
    observe_all(world, pod("a", claims=(), version=2))
    assert not world.gated_without_claim((NAMESPACE, NO_CLAIM))


def test_whoever_begins_to_act_looks_at_all_claims_and_at_pods_without_any(world):
    observe_all(world, claim(), pod("a", claims=(), gates=[SCHEDULING_GATE]))
    world.mark_all_dirty()
    assert set(world.dirty) == {KEY, (NAMESPACE, NO_CLAIM)}


def test_gated_pods_of_a_claim_that_is_not_there(world):
    observe_all(world, pod("a", gates=[SCHEDULING_GATE]), pod("b"))
    assert [c.name for c in world.gated_without_claim(KEY)] == ["a"]
    observe_all(world, claim())
    assert world.gated_without_claim(KEY) == ()
    assert world.gated_without_claim((NAMESPACE, "other")) == ()


# Claims of somebody else


def elsewhere(name, **form):
    """A pod whose status names the claim ``train`` for an entry of a template."""
    return pod(name, claims=(), templates={"own": "train"}, **form)


@pytest.mark.parametrize(
    ("of", "uses"),
    [
        pytest.param(claim(owner="a"), True, id="made-for-it"),
        pytest.param(claim(owner="b"), False, id="made-for-another-pod"),
        pytest.param(claim(), False, id="a-users"),
    ],
)
def test_a_pod_uses_a_claim_that_only_its_status_names_if_that_was_made_for_it(world, of, uses):
    observe_all(world, of, elsewhere("a", node="n1"))
    found = world.view(KEY, now=NOON)
    assert bool(found.starting) is uses
    observe_all(world, elsewhere("a", version=2))
    found = world.view(KEY, now=NOON)
    assert bool(found.waiting) is uses


def test_a_pod_that_is_listed_in_somebody_elses_claim_is_listed_for_a_reason_that_we_do_not_know(world):
    observe_all(world, claim(list=[waiting("a")]), elsewhere("a", node="n1"))
    assert kinds(world) == [EntryKind.FOREIGN]
    observe_all(world, elsewhere("a", node="n1", phase="Failed", version=2))
    assert kinds(world) == [EntryKind.FINISHED]


def test_a_pod_that_names_the_claim_itself_may_use_it_whatever_its_status_says(world):
    observe_all(world, claim(), pod("a", templates={"own": "train"}, node="n1"))
    assert world.view(KEY, now=NOON).starting


# Entries:


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        pytest.param([pod("a")], EntryKind.LIVE, id="there"),
        pytest.param([pod("a", phase="Succeeded")], EntryKind.FINISHED, id="ended"),
        pytest.param([pod("a", gates=(SCHEDULING_GATE,))], EntryKind.LIVE, id="gated-by-us"),
        pytest.param([pod("a", gates=(FOREIGN_GATE,))], EntryKind.UNKNOWN, id="gated-by-others-and-yet-listed"),
        pytest.param([], EntryKind.UNKNOWN, id="never-seen"),
        pytest.param([pod("a", claims=("data",))], EntryKind.FOREIGN, id="there-but-uses-another-claim"),
        pytest.param([pod("a", claims=("data",), phase="Failed")], EntryKind.FINISHED, id="ended-with-another-claim"),
    ],
)
def test_what_an_entry_of_a_pod_stands_for(world, known, kind):
    observe_all(world, claim(list=[waiting("a")]), *known)
    assert kinds(world) == [kind]


def test_a_pod_that_is_certainly_gone_leaves_an_entry_of_nobody(world):
    observe_all(world, claim(list=[waiting("a"), waiting("b")]), pod("a"), pod("b"))
    world.forget_pod(uid("a"))
    world.forget_pod(uid("b"), certain=False)
    assert kinds(world) == [EntryKind.FINISHED, EntryKind.UNKNOWN]


def test_a_live_read_settles_an_unknown_entry(world):
    observe_all(world, claim(list=[waiting("a"), waiting("b"), waiting("c")]))
    world.lookups.observe_pod_absent(KEY, uid("a"))
    world.lookups.observe_pod_present(KEY, uid("b"), now=NOON)
    assert kinds(world) == [EntryKind.FINISHED, EntryKind.FOREIGN, EntryKind.UNKNOWN]
    assert [entry.live_read_at for entry in world.view(KEY, now=NOON).entries] == [None, NOON, None]
    assert set(world.dirty) == {KEY}


def test_a_pod_without_the_claim_is_looked_up_again_when_somebody_else_has_written_the_claim(world):
    observe_all(world, claim(list=[waiting("a")]))
    world.lookups.observe_pod_present(KEY, uid("a"), now=NOON)
    world.observe_claim(claim(version=2, list=[waiting("a")]), now=NOON, ours=True)
    assert kinds(world) == [EntryKind.FOREIGN]
    observe_all(world, claim(version=3, list=[waiting("a"), waiting("b")]), now=NOON + LIVE_READ_VALID - 1.0)
    assert kinds(world) == [EntryKind.FOREIGN, EntryKind.UNKNOWN]
    observe_all(world, claim(version=4, list=[waiting("a"), waiting("b")]), now=NOON + LIVE_READ_VALID)
    assert kinds(world) == [EntryKind.UNKNOWN, EntryKind.UNKNOWN]


def test_a_live_read_shows_that_a_listed_pod_is_gated_indeed(world):
    observe_all(world, claim(list=[waiting("a")]), pod("a", gates=(FOREIGN_GATE,)))
    world.lookups.observe_pod_present(KEY, uid("a"), now=NOON)
    (entry,) = world.view(KEY, now=NOON).entries
    assert (entry.kind, entry.live_read_at) == (EntryKind.UNKNOWN, NOON)


def test_a_live_read_that_is_older_than_the_watch_settles_nothing(world):
    observe_all(world, claim(list=[waiting("a")]), pod("a"))
    world.lookups.observe_pod_absent(KEY, uid("a"))
    assert kinds(world) == [EntryKind.LIVE]


def test_what_was_settled_is_forgotten_with_the_entry(world):
    observe_all(world, claim(list=[waiting("a")]))
    world.lookups.observe_pod_absent(KEY, uid("a"))
    observe_all(world, claim(version=2), claim(version=3, list=[waiting("a")]))
    assert kinds(world) == [EntryKind.UNKNOWN]


# Claims:


@pytest.mark.parametrize("shown", [0, 1, 2], ids=["first", "after-the-watch-showed-it", "last"])
def test_entries_that_somebody_puts_back_are_noticed_however_late_the_answer_to_our_write_comes(world, shown):
    """The stock controller puts them back within 3 ms: on a busy machine before our own write is answered."""
    observe_all(world, claim(list=[started("a")]), pod("a", node="n1", ready="12:00"))
    pruned, restored = claim(version=2), claim(version=3, list=[started("a")])
    news = [pruned, restored]
    observe_all(world, *news[:shown])
    world.observe_claim(pruned, now=NOON, ours=True)
    observe_all(world, *news[shown:])
    history = world.view(KEY, now=NOON).history
    assert (history.returned, history.written_at) == (1, NOON)


def test_an_older_claim_is_ignored(world):
    observe_all(world, claim(version=10), claim(version=9, allocation=None))
    assert world.claim(KEY).status.allocation is not None


def test_a_claim_that_is_gone_leaves_its_pods(world):
    observe_all(world, claim(), pod("a", gates=[SCHEDULING_GATE]))
    world.forget_claim(KEY, claim().metadata.uid)
    assert set(world.dirty) == {KEY}
    assert world.view(KEY, now=NOON) is None
    assert [c.name for c in world.gated_without_claim(KEY)] == ["a"]


def test_late_news_of_an_earlier_claim_of_that_name_do_no_harm(world):
    observe_all(world, claim(version=5, identity=Uid("first")), claim(version=7, identity=Uid("second")))
    world.forget_claim(KEY, Uid("first"))
    assert world.claim(KEY).metadata.uid == "second"


def test_nothing_is_left_of_claims_and_pods_that_are_gone(world):
    observe_all(
        world,
        claim(workload=JOB, list=[waiting("a")], allocation=allocation(nodes=["n1"])),
        pod("a", node="n1", ready="12:00"),
    )
    world.forget_pod(uid("a"))
    world.forget_claim(KEY, claim().metadata.uid)
    assert not list(world.keys())
    assert not list(world.claims())
    assert not world.workloads.kinds()
    assert len(world.ledger) == 0
    on_nodes = world._node_dependents
    assert (list(world.consumers()), world._pods._sandboxes._boots) == ([], {})
    assert (on_nodes._pods, on_nodes._claims, on_nodes._named) == ({}, {}, {})


def test_a_reference_that_cannot_be_read_is_told(world):
    observe_all(world, claim(annotations={workload_reservations.RESERVED_FOR: "train"}))
    found = world.view(KEY, now=NOON)
    assert found.reservation is None
    assert "jobs.batch/train" in found.malformed
    observe_all(world, claim(version=2, workload=JOB))
    assert world.view(KEY, now=NOON).malformed == ""


def test_a_pod_that_becomes_known_when_it_is_listed_no_more_may_still_be_bound(world):
    """Claims and pods are watched one by one; either watch may be the first to tell."""
    observe_all(world, claim(list=[finished("a"), waiting("b")]), now=NOON)
    observe_all(world, claim(version=2, list=[finished("a")]), now=NOON + 1.0)
    observe_all(world, pod("b"), now=NOON + 2.0)
    found = world.view(KEY, now=NOON + 2.0)
    assert found.entry_histories[uid("b")].bindable_until(BIND_HORIZON, now=NOON + 2.0) == NOON + 1.0 + BIND_HORIZON


def test_who_was_listed_and_never_became_known_is_forgotten_in_the_end(world):
    observe_all(world, claim(list=[finished("a"), waiting("b")]), now=NOON)
    observe_all(world, claim(version=2, list=[finished("a")]), now=NOON)
    observe_all(world, claim(version=3, list=["guard"]), now=NOON + SLOW_BIND_HORIZON)
    assert uid("b") not in world.view(KEY, now=NOON).entry_histories


def test_at_the_start_whoever_waits_may_have_been_listed_before(world):
    observe_all(world, claim(), pod("a"), pod("b", node="n1"), pod("c", gates=[SCHEDULING_GATE]))
    world.mark_synced(now=NOON)
    listings = world.view(KEY, now=NOON).entry_histories
    assert {u: (each.last_listed, each.assumed) for u, each in listings.items()} == {uid("a"): (NOON, True)}


# Several claims of one pod:


def test_a_claim_that_becomes_ready_concerns_the_other_claims_of_its_pods(world):
    observe_all(
        world, claim(), claim("data", allocation=None), pod("a", gates=[SCHEDULING_GATE], claims=("train", "data"))
    )
    world.observe_claim(claim("data", version=2), now=NOON)
    assert set(world.dirty) == {KEY, (NAMESPACE, "data")}


# Devices:


def test_a_device_of_two_claims_is_noticed_until_one_is_free(world):
    observe_all(world, claim())
    world.observe_claim(claim("thief"), now=NOON)
    thief = (NAMESPACE, "thief")
    assert [str(c.holder.key) for c in world.view(thief, now=NOON).conflicts] == [str(KEY)]
    world.dirty.clear()
    world.observe_claim(claim(version=2, allocation=None), now=NOON)
    assert world.view(thief, now=NOON).conflicts == ()
    assert thief in world.dirty
    assert {h.key for h in (world.ledger.holder(i) for i in world.ledger.items(claim("thief").metadata.uid))} == {thief}


def test_a_claim_that_was_made_anew_does_not_fight_with_itself(world):
    observe_all(world, claim(version=1, identity=Uid("first")), claim(version=2, identity=Uid("second")))
    assert world.view(KEY, now=NOON).conflicts == ()


# The whole:

FORMS = st.sampled_from(
    [
        {},
        {"gates": [SCHEDULING_GATE]},
        {"gates": [SCHEDULING_GATE, FOREIGN_GATE]},
        {"node": "n1"},
        {"node": "n2"},
        {"node": "n1", "ready": "12:00"},
        {"node": "n1", "ready": "12:30"},
        {"node": "n1", "ready": False},
        {"node": "n1", "phase": "Succeeded"},
        {"unschedulable": "no node"},
        {"deleting": True},
        {"claims": ("train", "data")},
        {"claims": (), "gates": [SCHEDULING_GATE]},
        {"volumes": [DATA]},
    ]
)
NEWS = st.lists(st.tuples(st.sampled_from("abc"), st.none() | FORMS), max_size=25)


@given(NEWS)
def test_the_indexes_are_those_of_a_world_that_saw_only_the_end(news):
    world, last, lives = observe_all(ClaimCache(), claim(), claim("data")), {}, Counter()
    for version, (letter, form) in enumerate(news, start=1):
        name = f"{letter}{lives[letter]}"  # uids do not come back
        if form is None:
            world.forget_pod(uid(name))
            last.pop(name, None)
            lives[letter] += 1
        else:
            last[name] = pod(name, version=version, **form)
            world.observe_pod(last[name], now=NOON)
    fresh = observe_all(ClaimCache(), claim(), claim("data"), *last.values())
    for key in (KEY, (NAMESPACE, "data")):
        assert stages(world, key) == stages(fresh, key)
        members, stages_of = world._records[key].consumers, world._records[key].stages
        assert {u: c.stage for u, c in members.items()} == {u: s for s in Stage for u in stages_of[s]}
    assert set(world.gated_without_claim((NAMESPACE, NO_CLAIM))) == set(
        fresh.gated_without_claim((NAMESPACE, NO_CLAIM))
    )
    assert world._node_dependents._pods == fresh._node_dependents._pods
    assert {c.uid for c in world.consumers()} == {p.metadata.uid for p in last.values()}


@given(NEWS)
def test_no_news_are_news_twice(news):
    world = observe_all(ClaimCache(), claim(), claim("data"))
    for version, (name, form) in enumerate(news, start=1):
        if form is None:
            continue
        observed = pod(name, version=version, **form)
        observe_all(world, observed)
        before = msgspec.structs.asdict(world.view(KEY, now=NOON))
        world.observe_pod(observed, now=NOON + 1.0)
        assert not world.dirty
        assert msgspec.structs.asdict(world.view(KEY, now=NOON)) == before


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back(world):
    observe_all(world, claim(), pod("a"))
    world.forget_pod(uid("a"))
    world.forget_claim(KEY, claim().metadata.uid)
    observe_all(world, claim(version=9), pod("a", version=9))
    assert not list(world.keys())


def test_a_pod_that_was_looked_up_before_its_watch_told_of_it_is_gone_when_it_is_gone(world):
    observe_all(world, claim(list=[waiting("a")]))
    world.lookups.observe_pod_present(KEY, uid("a"), now=NOON)
    observe_all(world, pod("a"))
    world.forget_pod(uid("a"))
    assert [e.kind for e in world.view(KEY, now=NOON).entries] == [EntryKind.FINISHED]


MARKED = {"annotations": workload_reservations.entry_annotations(allocation())}


@pytest.mark.parametrize(
    ("before", "now", "ours", "leftover_at"),
    [
        pytest.param({}, {}, True, NOON, id="we-took-the-allocation-away"),
        pytest.param({}, {}, False, NOON + BIND_HORIZON, id="somebody-else-did"),
        pytest.param(None, {}, False, NOON + BIND_HORIZON, id="it-is-all-we-know"),
        pytest.param(None, MARKED, False, NOON, id="our-mark-tells-of-a-deallocation-of-ours"),
        pytest.param({}, {"protected": False}, True, None, id="it-went-with-the-allocation"),
        pytest.param(None, {"allocation": allocation()}, False, None, id="an-allocation-needs-it"),
    ],
)
def test_from_when_on_a_finalizer_is_a_leftover(world, before, now, ours, leftover_at):
    if before is not None:
        observe_all(world, claim(version=1, **before))
    world.observe_claim(claim(version=2, **{"allocation": None, "protected": True, **now}), now=NOON, ours=ours)
    assert world.view(KEY, now=NOON).history.leftover_at == leftover_at


def test_a_finalizer_that_was_put_on_anew_is_none(world):
    observe_all(world, claim(version=1))
    world.observe_claim(claim(version=2, allocation=None, protected=True), now=NOON, ours=True)
    observe_all(
        world, claim(version=3, allocation=None), claim(version=4, allocation=None, protected=True), now=NOON + 9.0
    )
    assert world.view(KEY, now=NOON).history.leftover_at == NOON + 9.0 + BIND_HORIZON


@pytest.mark.parametrize("ours", [False, True], ids=["somebody-elses", "ours"])
def test_an_entry_is_remembered_as_whose_it_is(world, ours):
    observe_all(world, claim(), pod("a"))
    world.observe_claim(claim(version=2, list=[waiting("a")]), now=NOON, ours=ours)
    assert world.view(KEY, now=NOON).entry_histories[uid("a")].by_others is not ours
