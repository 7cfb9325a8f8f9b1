"""When owners that lack claims are tried again."""

import msgspec
import pytest

from dra.engine.claims.codes import Code
from dra.engine.claims.generation.attempts import (
    NO_ATTEMPTS,
    RETRY,
    Attempts,
    ConfirmLost,
    GenerationAttempts,
    OwnerPlan,
    decide,
)
from dra.engine.claims.generation.claim_owners import ClaimOwnerView, owner_from_pod
from dra.engine.claims.generation.decide import CreateClaim, RecordClaims
from dra.engine.instants import NEVER
from dra.model.meta import Uid
from dra.model.templates import ResourceClaimTemplateSpec, WatchedTemplate
from tests.dra.engine.claims.generation.examples import claim, entry, pod, record, template
from tests.dra.engine.examples import NOON
from tests.violations import for_each_case

UID = Uid("uid-p")
LOST = (record("a", "p-a-1"),)


def view(*, records=(), templates=None, **given):
    owner = owner_from_pod(pod(entry("a"), records=records))
    return ClaimOwnerView(owner=owner, templates={"t": template()} if templates is None else templates, **given)


def refused(until, *, labels=None):
    owner = view().owner
    return Attempts(refused=CreateClaim(owner=owner, entry="a", template=template(labels=labels)), refused_until=until)


def steps(plan):
    return [type(action) for action in plan.actions]


@for_each_case(
    [
        pytest.param(view(), NO_ATTEMPTS, [CreateClaim], NEVER, id="lacks-a-claim"),
        pytest.param(view(), refused(NOON + 5.0), [], NOON + 5.0, id="refused-a-moment-ago"),
        pytest.param(view(), refused(NOON), [CreateClaim], NEVER, id="refused-long-ago"),
        pytest.param(view(), refused(NOON + 5.0, labels={"a": "b"}), [CreateClaim], NEVER, id="its-template-is-new"),
        pytest.param(view(records=LOST), NO_ATTEMPTS, [ConfirmLost], NEVER, id="its-claim-is-gone"),
        pytest.param(view(records=LOST), refused(NOON + 5.0), [], NOON + 5.0, id="nothing-is-read-then"),
        pytest.param(view(owned=(claim("p-a-1", made_for="a"),)), NO_ATTEMPTS, [RecordClaims], NEVER, id="unrecorded"),
        pytest.param(view(templates={}), NO_ATTEMPTS, [], NOON + RETRY[0], id="waits-for-its-template"),
        pytest.param(
            view(templates={}), Attempts(waiting_since=NOON - 7.0), [], NOON + 7.0, id="waits-as-long-as-it-has-waited"
        ),
        pytest.param(
            view(templates={}),
            Attempts(waiting_since=NOON - 999.0),
            [],
            NOON + RETRY[1],
            id="but-no-longer",
        ),
        pytest.param(None, NO_ATTEMPTS, [], NEVER, id="gone"),
    ]
)
def test_what_is_done_for_an_owner_and_when(seen, attempts, actions, wake_at):
    plan = decide(seen, attempts, now=NOON)
    assert (steps(plan), plan.wake_at) == (actions, wake_at)


def test_a_claim_that_is_gone_is_created_again_once_its_owner_was_read_live():
    plan = decide(view(records=LOST), NO_ATTEMPTS, now=NOON)
    assert [action.names for action in plan.actions] == [("p-a-1",)]
    assert steps(decide(view(records=LOST), NO_ATTEMPTS, now=NOON, confirmed=True)) == [CreateClaim]


def test_refusals_in_a_row_are_repeated_ever_more_slowly():
    attempts, action = GenerationAttempts(), refused(NOON).refused
    pauses = []
    for _ in range(12):
        attempts.refuse(UID, action, now=NOON)
        pauses.append(attempts.of(UID).refused_until - NOON)
    assert pauses[:3] == pytest.approx([0.2, 0.4, 0.8])
    assert pauses[-1] == RETRY[1]
    attempts.forget(UID)
    attempts.refuse(UID, action, now=NOON)
    assert attempts.of(UID).refused_until - NOON == pytest.approx(RETRY[0])


def test_an_owner_waits_from_the_first_plan_that_says_so_until_it_lacks_nothing():
    attempts = GenerationAttempts()
    for now in (NOON, NOON + 0.2, NOON + 1.0):
        plan = decide(view(templates={}), attempts.of(UID), now=now)
        assert [reason.code for reason in plan.reasons] == [Code.GENERATION_FAILED]
        attempts.observe_plan(UID, plan, now=now)
    assert attempts.of(UID).waiting_since == NOON
    attempts.observe_plan(UID, OwnerPlan(), now=NOON + 2.0)
    assert attempts.of(UID) == NO_ATTEMPTS


def test_the_end_of_a_refusal_is_nothing_to_wait_for():
    attempts = GenerationAttempts()
    attempts.refuse(UID, refused(NOON).refused, now=NOON)
    attempts.observe_plan(UID, decide(view(), attempts.of(UID), now=NOON), now=NOON)
    assert attempts.of(UID).waiting_since is None


@pytest.mark.parametrize(
    ("changes", "needs_template", "admin"),
    [
        pytest.param({}, False, False, id="small"),
        pytest.param({"adminAccess": True}, False, True, id="with-admin-access"),
    ],
)
def test_what_a_creation_needs(changes, needs_template, admin):
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", **changes}}]}}
    asks = msgspec.structs.replace(template(), spec=ResourceClaimTemplateSpec(spec=spec))
    action = CreateClaim(owner=view().owner, entry="a", template=asks)
    assert (action.needs_template, action.requests_admin_access) == (needs_template, admin)
    large = WatchedTemplate(**msgspec.structs.asdict(asks)).reduced()
    assert CreateClaim(owner=view().owner, entry="a", template=large).needs_template
