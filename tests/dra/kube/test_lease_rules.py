import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.kube.lease_rules import (
    LONG_PAST,
    SAFETY_MARGIN,
    WRITES_ANSWERED,
    AcquireLease,
    AwaitLease,
    CreateLease,
    ElectionTimings,
    Lease,
    LeaseSpec,
    ObservedLease,
    RenewLease,
    Tenure,
    begin_tenure,
    decide,
    observe_lease,
)
from dra.model.meta import ObjectMeta
from tests.violations import for_each_case

TERMS = ElectionTimings(lease_duration=15, renew_deadline=10.0, retry_period=2.0, request_timeout=10.0)


def lease(holder, *, renewed="t0", version="1", answered=None):
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=renewed, lease_transitions=3)
    annotations = {WRITES_ANSWERED: answered} if answered else None
    meta = ObjectMeta(name="l", namespace="ns", resource_version=version, annotations=annotations)
    return Lease(metadata=meta, spec=spec)


@for_each_case(
    [
        pytest.param(None, False, 0.0, CreateLease(), id="no-lease"),
        pytest.param(
            ObservedLease(lease("x"), 0.0, missing=True), False, 14.9, AwaitLease(until=15.0), id="deleted-but-in-force"
        ),
        pytest.param(
            ObservedLease(lease("x"), 0.0, missing=True), False, 15.0, CreateLease(lease("x")), id="deleted-and-over"
        ),
        pytest.param(
            ObservedLease(lease("me"), 0.0, missing=True), True, 1.0, CreateLease(lease("me")), id="ours-was-deleted"
        ),
        pytest.param(ObservedLease(lease(""), 0.0), False, 0.0, AcquireLease(lease("")), id="given-back"),
        pytest.param(ObservedLease(lease("me"), 0.0), True, 99.0, RenewLease(lease("me")), id="ours"),
        pytest.param(
            ObservedLease(lease("me"), 0.0), False, 1.0, AcquireLease(lease("me")), id="of-the-process-before-us"
        ),
        pytest.param(ObservedLease(lease("x"), 0.0), False, 14.9, AwaitLease(until=15.0), id="somebody-elses"),
        pytest.param(ObservedLease(lease("x"), 0.0), False, 15.0, AcquireLease(lease("x")), id="expired"),
        pytest.param(ObservedLease(lease("x"), 90.0), True, 91.0, AwaitLease(until=105.0), id="taken-from-us"),
    ]
)
def test_decisions(seen, leading, now, decision):
    assert decide(seen, identity="me", is_leader=leading, now=now) == decision


@pytest.mark.parametrize(
    ("second", "since"),
    [
        pytest.param(lease("x"), 0.0, id="no-sign-of-life"),
        pytest.param(lease("x", version="2"), 0.0, id="an-annotation-is-none"),
        pytest.param(lease("x", renewed="t1"), 5.0, id="renewed"),
        pytest.param(lease("y"), 5.0, id="other-holder"),
    ],
)
def test_a_lease_expires_from_the_last_sign_of_life_that_we_saw(second, since):
    first = observe_lease(None, lease("x"), now=0.0)
    assert observe_lease(first, second, now=5.0).since == since


@for_each_case(
    [
        pytest.param(CreateLease(), None, LONG_PAST, "", id="first-of-all"),
        pytest.param(AcquireLease(lease("")), 99.5, 110.0, "", id="given-back"),
        pytest.param(
            AcquireLease(lease("", answered="3")), 99.5, LONG_PAST, "", id="given-back-with-all-writes-answered"
        ),
        pytest.param(AcquireLease(lease("", answered="2")), 99.5, 110.0, "", id="so-said-somebody-before"),
        pytest.param(AcquireLease(lease("x", answered="3")), 85.0, 110.0, "x", id="so-said-of-one-that-still-holds-it"),
        pytest.param(AcquireLease(lease("x")), 85.0, 110.0, "x", id="expired"),
        pytest.param(CreateLease(lease("x")), 80.0, 110.0, "x", id="deleted-and-expired"),
        pytest.param(AcquireLease(lease("me")), 99.0, 124.0, "me", id="of-the-process-before-us"),
    ]
)
def test_a_new_leader_knows_until_when_late_writes_may_come(decision, since, previous_writes_until, previous):
    seen = None if since is None else ObservedLease(decision.lease, since)
    tenure = begin_tenure(decision, seen, terms=TERMS, sent=99.0, now=100.0)
    assert (tenure.renewed_at, tenure.previous_writes_until, tenure.previous) == (99.0, previous_writes_until, previous)


def test_a_lease_that_is_deleted_is_remembered():
    assert observe_lease(None, None, now=5.0) is None
    first = observe_lease(None, lease("x"), now=0.0)
    gone = observe_lease(first, None, now=5.0)
    assert (gone.missing, gone.since) == (True, 0.0)
    assert not observe_lease(gone, lease("x"), now=6.0).missing


def test_writes_end_before_the_lease_does():
    assert Tenure(100.0, LONG_PAST).write_until(TERMS) == 115.0 - SAFETY_MARGIN


@pytest.mark.parametrize(("now", "over"), [(109.9, False), (110.0, True)])
def test_a_tenure_that_cannot_be_renewed_is_over(now, over):
    assert Tenure(100.0, LONG_PAST).is_over(TERMS, now=now) is over


@pytest.mark.parametrize(
    "terms",
    [{"retry_period": 10.0}, {"renew_deadline": 14.0}, {"lease_duration": 10}, {"renew_deadline": 1.0}],
    ids=str,
)
def test_terms_that_do_not_fit_each_other_are_refused(terms):
    with pytest.raises(ValueError, match=r"^election timings: retry_period "):
        ElectionTimings(**terms)


@given(
    sent=st.floats(0, 1e6),
    travelled=st.floats(0, 10),
    looked=st.floats(0, 5),
    waited=st.floats(0, 100),
)
def test_nobody_takes_a_lease_while_its_leader_may_write(sent, travelled, looked, waited):
    """The leader renews at `sent`; another candidate sees it when it has arrived, or later, and then waits."""
    seen = observe_lease(None, lease("x"), now=sent + travelled + looked)
    now = seen.since + waited
    if isinstance(decide(seen, identity="me", is_leader=False, now=now), AcquireLease):
        assert Tenure(sent, LONG_PAST).write_until(TERMS) < now
