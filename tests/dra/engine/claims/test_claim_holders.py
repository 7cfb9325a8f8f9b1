"""Whose held claims are, by what is known."""

import msgspec
import pytest

from dra.engine.claims import claim_holders
from dra.engine.claims.claim_holders import ClaimHolder, ClaimHolders, HolderState
from dra.model.claims import ResourceClaim, ResourceClaimStatus
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from tests.dra.engine.reservations.examples import available, reservation
from tests.violations import for_each_case

UID, NAMESPACE = Uid("uid-demo"), "ml"
ENTRY = claim_holders.reserved_for_entry("demo", UID)


def template(*entries):
    return {"metadata": {"namespace": NAMESPACE}, "spec": {"resourceClaims": list(entries)}}


def made(*, owners=None, entries=(), namespace=NAMESPACE, name="c"):
    owners = [claim_holders.reservation_owner_reference("demo", UID)] if owners is None else owners
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=Uid("uid-c"), owner_references=owners),
        status=ResourceClaimStatus(reserved_for=list(entries)),
    )


def holders(*seen):
    found = ClaimHolders()
    found.is_enabled = True
    for each in seen:
        found.observe(UID, each)
    return found


OURS = template({"name": "a", "resourceClaimTemplateName": "t"})


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        pytest.param([], HolderState.UNKNOWN, id="not-seen"),
        pytest.param([reservation(template=OURS)], HolderState.PENDING, id="new"),
        pytest.param([reservation(template=OURS, status={"phase": "Pending"})], HolderState.PENDING, id="pending"),
        pytest.param([available(template=OURS)], HolderState.AVAILABLE, id="available"),
        pytest.param([available(template=OURS, status={"phase": "Succeeded"})], HolderState.OVER, id="used"),
        pytest.param([available(template=OURS, status={"phase": "Failed"})], HolderState.OVER, id="expired"),
    ],
)
def test_state(seen, state):
    found = holders(*seen)
    assert found.holders_of(made()) == (ClaimHolder(reference=ENTRY, state=state, is_owner=True),)
    found.forget(UID)
    assert found.state("demo", UID) is HolderState.OVER


def test_who_is_gone_does_not_come_back_by_an_older_answer():
    found = holders(available(template=OURS))
    found.forget(UID)
    found.observe(UID, available(template=OURS))
    assert found.state("demo", UID) is HolderState.OVER


def test_a_name_that_a_live_read_shows_to_be_missing_is_gone_whatever_an_older_answer_shows():
    cached = holders()
    assert cached.forget_named("demo", UID) == frozenset()
    cached.observe(UID, available(template=OURS))
    assert cached.holders_of(made()) == (ClaimHolder(reference=ENTRY, state=HolderState.OVER, is_owner=True),)
    cached = holders(available(template=template({"name": "a", "resourceClaimName": "named"})))
    assert cached.forget_named("demo", UID) == {(NAMESPACE, "named")}
    assert cached.state("demo", UID) is HolderState.OVER


def test_a_uid_under_a_name_that_somebody_made_up_ends_nothing():
    cached = holders()
    forged, honest = made(owners=[], entries=[claim_holders.reserved_for_entry("bogus", UID)], name="d"), made()
    for claim in (forged, honest):
        cached.observe_claim(claim, None)
    assert cached.forget_named("bogus", UID) == {(NAMESPACE, "c"), (NAMESPACE, "d")}
    assert [cached.holders_of(claim)[0].state for claim in (forged, honest)] == [HolderState.OVER, HolderState.UNKNOWN]
    cached.observe(UID, available(template=OURS))
    cached.forget_named("bogus", UID)
    assert cached.holders_of(honest)[0].state is HolderState.AVAILABLE


def test_names_that_are_missing_are_remembered_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(claim_holders, "DELETED_RESERVATIONS_MAX", 2)
    cached = holders()
    for name in ("a", "b", "c"):
        cached.forget_named(name, UID)
    states = [cached.state(name, UID) for name in ("a", "b", "c")]
    assert states == [HolderState.UNKNOWN, HolderState.OVER, HolderState.OVER]


def test_who_cannot_be_read_is_in_doubt():
    found = holders(available(template=OURS))
    found.mark_unreadable(UID)
    assert found.state("demo", UID) is HolderState.UNKNOWN


@for_each_case(
    [
        pytest.param(made(), [True], id="made-for-it"),
        pytest.param(made(owners=[], name="named"), [False], id="named-by-its-template"),
        pytest.param(made(owners=[], entries=[ENTRY]), [False], id="listed"),
        pytest.param(made(owners=[]), [], id="none-of-its-business"),
        pytest.param(made(namespace="other"), [], id="somebody-says-so-in-another-namespace"),
        pytest.param(made(owners=[], name="named", namespace="other"), [], id="that-name-in-another-namespace"),
        pytest.param(
            made(
                owners=[
                    msgspec.structs.replace(claim_holders.reservation_owner_reference("demo", UID), controller=True)
                ]
            ),
            [],
            id="controlled-by-it",
        ),
        pytest.param(
            made(owners=[OwnerReference(api_version="v1", kind="Pod", name="p", uid=UID)]), [], id="another-kind"
        ),
    ]
)
def test_which_claims_it_holds(found, holds):
    known = holders(available(template=template({"name": "a", "resourceClaimName": "named"})))
    assert [hold.is_owner for hold in known.holders_of(found)] == holds
    known.is_enabled = False
    assert known.holders_of(found) == ()


def test_two_may_name_one_claim_and_one_of_them_go():
    known = holders(available(template=template({"name": "a", "resourceClaimName": "named"})))
    known.observe(Uid("uid-2"), available(template=template({"name": "a", "resourceClaimName": "named"})))
    of = made(owners=[], name="named")
    assert [hold.reference.uid for hold in known.holders_of(of)] == ["uid-2", UID]
    known.forget(Uid("uid-2"))
    assert [hold.reference.uid for hold in known.holders_of(of)] == [UID]


def test_what_happens_to_it_concerns_its_claims_and_no_others():
    found = holders()
    found.observe_claim(made(), None)
    found.observe_claim(made(owners=[], name="free"), None)
    of = available(template=template({"name": "a", "resourceClaimName": "named"}))
    assert found.observe(UID, of) == {(NAMESPACE, "c"), (NAMESPACE, "named")}
    assert found.observe(UID, of) == frozenset()
    found.observe_claim(made(owners=[]), made())
    assert found.forget(UID) == {(NAMESPACE, "named")}


@pytest.mark.parametrize(
    "spec", [{}, {"resourceClaims": None}, {"resourceClaims": "x"}, {"resourceClaims": ["x", {"name": 1}]}], ids=str
)
def test_a_template_may_ask_for_anything(spec):
    assert claim_holders.template_claim_keys(reservation(template={"spec": spec})) == frozenset()
