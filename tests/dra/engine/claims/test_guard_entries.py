"""Rule 4 beside the stock controller: a pod that a scheduler listed may be bound, and the pods watch behind."""

import pytest

from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.window import EntryHistory
from dra.engine.instants import BIND_HORIZON, WATCH_OUTAGE_UNNOTICED
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from tests.dra.engine.examples import (
    JOB,
    NOON,
    PRESENT,
    claim,
    decided,
    gated,
    listed,
    many,
    started,
    uid,
    view,
    waiting,
)


@pytest.mark.parametrize(
    ("form", "guarded"),
    [
        pytest.param({"by_others": True}, True, id="that-a-scheduler-listed"),
        pytest.param({}, False, id="that-we-listed"),
    ],
)
@pytest.mark.parametrize("workload", [None, JOB], ids=["nobodys", "a-workloads"])
def test_a_pod_that_looks_unbound_is_taken_off_a_full_list_behind_a_guard(workload, form, guarded):
    entries = [workload] if workload else []
    running = many(started, RESERVED_FOR_MAX_SIZE - 1 - len(entries))
    listing = EntryHistory(listed_since=NOON, last_listed=NOON, **form)
    of = claim(workload=workload, entered=True, list=[*entries, *running, waiting("a")])
    plan = decided(
        view(of, *running, waiting("a"), workload=PRESENT, entry_histories={uid("a"): listing}), policy=ALONGSIDE
    )
    assert "a" not in listed(plan)
    assert ("guards/train" in listed(plan)) is guarded


@pytest.mark.parametrize(
    ("policy", "guarded"),
    [pytest.param(REPLACE, False, id="replace"), pytest.param(ALONGSIDE, True, id="alongside")],
)
@pytest.mark.parametrize(
    "pods",
    [pytest.param([], id="not-seen-yet"), pytest.param([gated("a", gates=["kueue.x-k8s.io/admission"])], id="gated")],
)
def test_an_entry_that_the_pods_watch_does_not_explain_brings_a_guard_beside_the_stock_controller(
    pods, policy, guarded
):
    plan = decided(view(claim(list=[waiting("a")]), *pods, workload=PRESENT), policy=policy)
    assert ("guards/train" in (listed(plan) or ())) is guarded


@pytest.mark.parametrize(
    ("seconds", "form", "guarded"),
    [
        pytest.param(
            BIND_HORIZON + WATCH_OUTAGE_UNNOTICED - 1, {"by_others": True}, True, id="its-binding-may-not-be-seen-yet"
        ),
        pytest.param(
            BIND_HORIZON + WATCH_OUTAGE_UNNOTICED, {"by_others": True}, False, id="its-binding-would-have-been-seen"
        ),
        pytest.param(1, {"assumed": True}, True, id="after-a-restart"),
        pytest.param(1, {}, False, id="we-listed-it"),
    ],
)
def test_that_guard_stays_until_the_binding_must_have_been_seen(seconds, form, guarded):
    listings = {uid("a"): EntryHistory(last_listed=NOON - seconds, **form)}
    of = claim(list=["guard", waiting("b")])
    plan = decided(view(of, waiting("a"), waiting("b"), workload=PRESENT, entry_histories=listings), policy=ALONGSIDE)
    written = listed(plan)
    assert (written is None or "guards/train" in written) is guarded
    assert not guarded or plan.wake_at <= NOON - seconds + BIND_HORIZON + WATCH_OUTAGE_UNNOTICED


@pytest.mark.parametrize(
    ("seconds", "guarded"),
    [
        pytest.param(BIND_HORIZON - 1, True, id="the-deallocation-would-wait"),
        pytest.param(BIND_HORIZON, False, id="the-next-write-would-free-the-claim"),
    ],
)
def test_an_empty_list_gets_a_guard_only_as_long_as_the_deallocation_would_wait(seconds, guarded):
    """Two writes would be made of one piece of news otherwise: machine, seed 197900."""
    listings = {uid("a"): EntryHistory(last_listed=NOON - seconds, by_others=True)}
    plan = decided(view(claim(), waiting("a"), entry_histories=listings), policy=ALONGSIDE)
    assert listed(plan) == (["guards/train"] if guarded else None)


@pytest.mark.parametrize(
    ("form", "known", "kept"),
    [
        pytest.param({}, {}, False, id="a-claim-that-is-not-ours"),
        pytest.param({"owner": "a"}, {}, False, id="generated-for-the-pod"),
        pytest.param({"workload": JOB, "entered": True}, {}, True, id="a-workloads"),
        pytest.param({}, {"opted_in": True}, True, id="a-pod-that-opted-in"),
        pytest.param({"annotations": {"reserve.dra/pre-list": "true"}}, {}, True, id="a-claim-that-opted-in"),
    ],
)
def test_a_claim_whose_scheduler_gave_up_the_binding_is_left_to_the_scheduler(form, known, kept):
    """A failed binding condition: the stock scheduler frees the claim two seconds later, if no entry is in the list."""
    listings = {uid("a"): EntryHistory(last_listed=NOON - 1, by_others=True, unreserve_count=1)}
    plan = decided(view(claim(**form), waiting("a", **known), entry_histories=listings), policy=ALONGSIDE)
    assert bool(listed(plan)) is kept


def test_a_scheduler_that_lists_a_pod_again_is_binding_it_again():
    listings = {uid("a"): EntryHistory(listed_since=NOON, last_listed=NOON, by_others=True, unreserve_count=1)}
    plan = decided(view(claim(list=[waiting("a")]), waiting("a"), entry_histories=listings), policy=ALONGSIDE)
    assert listed(plan) in (None, ["a"])
