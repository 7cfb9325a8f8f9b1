"""What the world makes of workloads: those that claims refer to, and no others."""

import pytest

from dra.engine.claims.actions import LookUpWorkload
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import WorkloadPhase, WorkloadState
from dra.engine.claims.workload_index import WorkloadKey
from dra.model.meta import Uid
from dra.model.references import ConsumerReference
from tests.dra.engine.examples import JOB, JOBS, KEY, NAMESPACE, NOON, claim, decided, observe_all, of_type, pod

TRAIN = WorkloadKey(JOBS, NAMESPACE, "train")


@pytest.mark.parametrize(
    ("kind", "news", "known"),
    [
        pytest.param(None, [], WorkloadState(), id="not-looked-at"),
        pytest.param("ABSENT", [], WorkloadState(phase=WorkloadPhase.ABSENT), id="listed-and-not-there"),
        pytest.param("ABSENT", ["there"], WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid), id="there"),
        pytest.param("ABSENT", ["done"], WorkloadState(phase=WorkloadPhase.FINISHED, uid=JOB.uid), id="finished"),
        pytest.param(
            "ABSENT",
            ["there", "gone"],
            WorkloadState(phase=WorkloadPhase.ABSENT, gone=frozenset({JOB.uid})),
            id="deleted",
        ),
        pytest.param(
            "ABSENT",
            ["there", "again"],
            WorkloadState(phase=WorkloadPhase.PRESENT, uid=Uid("second"), gone=frozenset({JOB.uid})),
            id="another-of-that-name",
        ),
        pytest.param(
            "ABSENT",
            ["again", "gone"],
            WorkloadState(phase=WorkloadPhase.PRESENT, uid=Uid("second"), gone=frozenset({JOB.uid})),
            id="the-first-is-gone-the-second-there",
        ),
        pytest.param("FORBIDDEN", ["there"], WorkloadState(phase=WorkloadPhase.FORBIDDEN, uid=JOB.uid), id="forbidden"),
        pytest.param("NO_KIND", [], WorkloadState(phase=WorkloadPhase.NO_KIND), id="no-such-kind"),
    ],
)
def test_what_is_known_of_a_workload(world, kind, news, known):
    observe_all(world, claim(workload=JOB))
    tell = {
        "there": lambda: world.workloads.observe(TRAIN, uid=JOB.uid, finished=False),
        "done": lambda: world.workloads.observe(TRAIN, uid=JOB.uid, finished=True),
        "again": lambda: world.workloads.observe(TRAIN, uid=Uid("second"), finished=False),
        "gone": lambda: world.workloads.forget(TRAIN, JOB.uid),
    }
    if kind:
        world.workloads.observe_kind(JOBS, WorkloadPhase[kind])
    for each in news:
        tell[each]()
    assert world.workloads.get(TRAIN) == known
    assert set(world.dirty) == ({KEY} if kind or news else set())


def test_a_watch_that_is_behind_does_not_bury_what_a_live_read_has_shown(world):
    """A Job is replaced twice while the watch is silent, and read live then (machine, seed 161668)."""
    observe_all(world, claim(workload=JOB))
    world.workloads.observe(TRAIN, uid=Uid("third"), finished=False, live=True)
    world.workloads.observe(TRAIN, uid=Uid("second"), finished=False)
    assert "third" not in world.workloads.get(TRAIN).gone
    world.workloads.forget(TRAIN, Uid("second"))
    world.workloads.observe(TRAIN, uid=Uid("third"), finished=False)
    assert world.workloads.get(TRAIN) == WorkloadState(
        phase=WorkloadPhase.PRESENT, uid=Uid("third"), gone=frozenset({Uid("second")})
    )
    world.workloads.observe(TRAIN, uid=Uid("fourth"), finished=False)
    assert "third" in world.workloads.get(TRAIN).gone, "the watch has shown the third one, and another one after that"


def test_an_answer_that_was_slower_than_the_watch_changes_nothing(world):
    observe_all(world, claim(workload=JOB))
    world.workloads.observe(TRAIN, uid=JOB.uid, finished=False)
    world.workloads.observe(TRAIN, uid=Uid("second"), finished=False)
    known = world.workloads.get(TRAIN)
    world.workloads.observe(TRAIN, uid=JOB.uid, finished=False, live=True)
    assert world.workloads.get(TRAIN) == known


def test_kinds_are_watched_while_claims_refer_to_them(world):
    observe_all(world, claim(workload=JOB))
    assert world.workloads.kinds() == {JOBS}
    observe_all(world, claim(version=2, workload=ConsumerReference.parse("pods/x")))
    assert {str(kind) for kind in world.workloads.kinds()} == {"pods"}


def test_nothing_is_kept_of_a_kind_that_no_claim_refers_to_any_more(world):
    observe_all(world, claim(workload=JOB))
    for number in range(10):
        named = WorkloadKey(JOBS, NAMESPACE, f"train-{number}")
        world.workloads.observe(named, uid=Uid(f"uid-{number}"), finished=False)
    world.forget_claim(KEY, claim().metadata.uid)
    world.workloads.forget_kind(JOBS)
    assert world.workloads._known == {}


def test_a_workload_that_no_claim_refers_to_concerns_none(world):
    observe_all(world, claim(workload=JOB))
    world.workloads.observe(WorkloadKey(JOBS, "other", "train"), uid=JOB.uid, finished=False)
    world.workloads.observe(WorkloadKey(JOBS, NAMESPACE, "other"), uid=JOB.uid, finished=False)
    assert not world.dirty


def test_a_workload_may_come_before_the_claim_that_refers_to_it(world):
    world.workloads.observe(TRAIN, uid=JOB.uid, finished=False)
    observe_all(world, claim(workload=JOB))
    assert world.view(KEY, now=NOON).workload.phase is WorkloadPhase.PRESENT


@pytest.mark.parametrize("claim_goes_first", [True, False])
def test_a_workload_that_is_gone_with_its_claim_is_forgotten(world, claim_goes_first):
    observe_all(world, claim(workload=JOB))
    world.workloads.observe(TRAIN, uid=JOB.uid, finished=True)
    if claim_goes_first:
        world.forget_claim(KEY, claim().metadata.uid)
    world.workloads.forget(TRAIN, JOB.uid)
    world.forget_claim(KEY, claim().metadata.uid)
    assert world.workloads._known == {}


def test_whom_the_entry_of_a_workload_let_in_counts_as_listed_until_it_goes():
    """A scheduling cycle that saw it may still bind the pod, whatever else is in the list: simulation seed 1308."""
    form = {"workload": JOB, "native": True, "any_pod": True}
    known = ClaimCache()
    observe_all(known, claim(list=[JOB], **form), pod("a"))
    before = known.view(KEY, now=NOON)
    known.observe_claim(claim(version=2, **form), now=NOON + 5, ours=True)
    after = known.view(KEY, now=NOON + 5)
    waits = before.waiting[0]
    assert before.is_admitted(waits)
    assert not after.is_admitted(waits)
    assert after.entry_histories[waits.uid].last_listed == NOON + 5


def test_a_workload_that_a_list_lacks_is_read_anew(world):
    """A live read had shown it; it went while the watch was lost."""
    key = WorkloadKey(JOBS, NAMESPACE, "train")
    world.workloads.observe_kind(JOBS, WorkloadPhase.ABSENT)
    observe_all(world, claim(workload=JOB, list=[JOB]))
    world.workloads.observe(key, uid=JOB.uid, finished=False)
    world.dirty.clear()
    world.workloads.listed(JOBS, {(NAMESPACE, "train")})
    assert (world.workloads.get(key).phase, set(world.dirty)) == (WorkloadPhase.PRESENT, set())
    world.workloads.listed(JOBS, set())
    assert (world.workloads.get(key), set(world.dirty)) == (WorkloadState(phase=WorkloadPhase.ABSENT), {KEY})
    assert of_type(decided(world.view(KEY, now=NOON)), LookUpWorkload) == [LookUpWorkload(claim=KEY, reference=JOB)]
