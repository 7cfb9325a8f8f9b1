"""Which held claims pods get instead of new ones."""

import msgspec
import pytest

from dra.engine.claims import claim_holders
from dra.engine.claims.codes import Code
from dra.engine.claims.generation import manifests
from dra.engine.claims.generation.decide import decide
from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.engine.claims.view import guard_entry
from dra.engine.reservations import placeholders
from dra.model.claims import POD_CLAIM_NAME, ResourceClaim, ResourceClaimSpec, ResourceClaimStatus
from dra.model.meta import OwnerReference, Uid
from dra.model.references import ConsumerReference
from tests.dra.engine.claims.generation.examples import DEVICES, entry, meta, pod, record, see, template
from tests.dra.engine.examples import NAMESPACE, allocation
from tests.dra.engine.reservations.examples import available, reservation
from tests.violations import for_each_case

A, B = entry("a"), entry("b")


def rsv(name="r", *, app="a", phase="Available", node="n", **spec):
    """A reservation for pods with that label, of a template in their namespace."""
    spec = {
        "template": {"metadata": {"namespace": NAMESPACE}, "spec": {"resourceClaims": [{"name": "a"}]}},
        "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
        "allocateOnce": False,
        **spec,
    }
    made = available(status={"phase": phase, "nodeName": node}, **spec) if phase else reservation(**spec)
    return made.model_copy(update={"metadata": made.metadata.model_copy(update={"name": name, "uid": f"uid-{name}"})})


def held(name="h", *, of="r", spec=DEVICES, controller=None, entries=None, allocated=True, labels=None, deleting=False):
    owners = [claim_holders.reservation_owner_reference(of, Uid(f"uid-{of}"))]
    if controller:
        by = {"name": controller, "uid": Uid(f"uid-{controller}"), "controller": True}
        owners.insert(0, OwnerReference(api_version="v1", kind="Pod", **by))
    entries = [claim_holders.reserved_for_entry(of, Uid(f"uid-{of}"))] if entries is None else entries
    more = {"deletion_timestamp": "2026-11-20T12:00:00Z"} if deleting else {}
    return ResourceClaim(
        metadata=meta(name, owner_references=owners, labels=labels, **more),
        spec=msgspec.convert(spec, ResourceClaimSpec),
        status=ResourceClaimStatus(allocation=allocation() if allocated else None, reserved_for=entries),
    )


def owner_pod(*entries, name="p", app="a", records=(), annotations=None, **more):
    found = pod(*entries, name=name, records=records, **more)
    metadata = msgspec.structs.replace(found.metadata, labels={"app": app}, annotations=annotations)
    return msgspec.structs.replace(found, metadata=metadata)


def index(*objects):
    found, claims = ClaimOwnerIndex(), {}
    found.holders.is_enabled = True
    for each in objects:
        if hasattr(each, "model_copy"):
            found.holders.observe(Uid(each.metadata.uid), each)
        else:
            see(found, each, claims)
    return found, claims


def plan(*objects, of="p", living=("x",)):
    found, claims = index(*objects)
    return decide(found.view(Uid(f"uid-{of}"), claim=claims.get, is_unfinished=lambda uid: uid in living))


def taken(found):
    return {action.entry: action.held.claim.metadata.name for action in found.hand_over}


def created(found):
    return [action.entry for action in found.create]


def test_an_owner_gets_the_held_claim_and_no_new_one():
    found = plan(rsv(), held(), template(), owner_pod(A))
    assert (taken(found), created(found), found.record) == ({"a": "h"}, [], None)
    write = manifests.hand_over_write(found.hand_over[0])
    assert [(o.name, bool(o.controller)) for o in write.owners] == [("p", True), ("r", False)]
    assert dict(write.annotations) == {POD_CLAIM_NAME: "a"}


@for_each_case(
    [
        pytest.param([held(), owner_pod(A)], id="a-reservation-that-is-not-known"),
        pytest.param([rsv(phase=""), held(), owner_pod(A)], id="one-without-a-place"),
        pytest.param([rsv(phase="Failed"), held(), owner_pod(A)], id="one-that-is-over"),
        pytest.param([rsv(phase="Succeeded"), held(), owner_pod(A)], id="one-that-was-used-once"),
        pytest.param([rsv(unschedulable=True), held(), owner_pod(A)], id="a-cordoned-one"),
        pytest.param([rsv(), held(), owner_pod(A, app="b")], id="somebody-else"),
        pytest.param(
            [rsv(), held(), owner_pod(A, annotations={"scheduling.koordinator.sh/reservation-affinity": "{"})],
            id="a-pod-whose-annotation-cannot-be-read",
        ),
        pytest.param(
            [rsv(), held(spec={"devices": {"requests": []}}), owner_pod(A)], id="a-claim-that-asks-for-something-else"
        ),
        pytest.param([rsv(), held(allocated=False), owner_pod(A)], id="one-without-devices"),
        pytest.param([rsv(), held(deleting=True), owner_pod(A)], id="one-that-is-being-deleted"),
        pytest.param(
            [rsv(), held(controller="q"), owner_pod(A), owner_pod(A, name="q")], id="one-that-another-pod-has"
        ),
        pytest.param(
            [
                rsv(),
                held(
                    entries=[
                        claim_holders.reserved_for_entry("r", Uid("uid-r")),
                        ConsumerReference(resource="pods", name="x", uid=Uid("x")),
                    ]
                ),
                owner_pod(A),
            ],
            id="one-that-somebody-uses-by-name",
        ),
        pytest.param([rsv(), held(entries=[guard_entry(held())]), owner_pod(A)], id="one-with-a-guard"),
    ]
)
def test_else_it_gets_a_new_one(objects):
    found = plan(*objects, template())
    assert (taken(found), created(found)) == ({}, ["a"])


@pytest.mark.parametrize(
    "former",
    [
        pytest.param([], id="gone"),
        pytest.param([owner_pod(A, name="q", phase="Succeeded")], id="ended"),
        pytest.param([owner_pod(A, name="q", deleted=True)], id="ending"),
    ],
)
def test_who_comes_while_its_predecessor_ends_waits_for_the_claim(former):
    found = plan(rsv(), held(controller="q"), template(), owner_pod(A), *former)
    assert found.done
    (reason,) = found.reasons
    assert (reason.code, dict(reason.arguments)["former"]) == (Code.WAITS_FOR_HELD, "pod q")


def test_a_claim_in_whose_list_its_last_pod_is_left_is_waited_for():
    """The garbage collector takes the controller off faster than anybody the entry."""
    entries = [
        claim_holders.reserved_for_entry("r", Uid("uid-r")),
        ConsumerReference(resource="pods", name="q", uid=Uid("uid-q")),
    ]
    found = plan(rsv(), held(entries=entries), template(), owner_pod(A))
    assert (found.done, dict(found.reasons[0].arguments)["former"]) == (True, "pod q")


def test_a_claim_whose_reservation_is_not_listed_yet_is_waited_for():
    found = plan(rsv(), held(entries=[]), template(), owner_pod(A))
    assert [reason.code for reason in found.reasons] == [Code.WAITS_FOR_HELD]


def test_what_a_template_says_of_metadata_must_be_on_the_claim():
    labelled = template(labels={"team": "x"})
    assert created(plan(rsv(), held(), labelled, owner_pod(A))) == ["a"]
    assert taken(plan(rsv(), held(labels={"team": "x", "more": ""}), labelled, owner_pod(A))) == {"a": "h"}


def test_each_entry_gets_a_claim_of_its_own_and_what_is_not_held_is_made():
    found = plan(rsv(), held("h1"), template(), owner_pod(A, B))
    assert (taken(found), created(found)) == ({"a": "h1"}, ["b"])
    found = plan(rsv(), held("h1"), held("h2"), template(), owner_pod(A, B))
    assert (taken(found), created(found)) == ({"a": "h1", "b": "h2"}, [])


def test_claims_of_two_reservations_are_not_mixed_and_the_one_that_serves_most_is_taken():
    two = [rsv("r1"), rsv("r2"), held("h1", of="r1"), held("h2", of="r2"), held("h3", of="r2")]
    assert taken(plan(*two, template(), owner_pod(A, B))) == {"a": "h2", "b": "h3"}
    mine = held("m", of="r1", controller="p")
    metadata = msgspec.structs.replace(mine.metadata, annotations={POD_CLAIM_NAME: "a"})
    mine = msgspec.structs.replace(mine, metadata=metadata)
    assert taken(plan(*two, mine, template(), owner_pod(A, B))) == {"b": "h1"}


def test_what_was_given_is_recorded_and_then_all_is_well():
    given = held(controller="p")
    metadata = msgspec.structs.replace(given.metadata, annotations={POD_CLAIM_NAME: "a"})
    given = msgspec.structs.replace(given, metadata=metadata)
    found = plan(rsv(), given, template(), owner_pod(A))
    assert [(c.name, c.resource_claim_name) for c in found.record.claims] == [("a", "h")]
    assert plan(rsv(), given, template(), owner_pod(A, records=[record("a", "h")])).done


def placeholder(*entries, of="r"):
    by = OwnerReference(
        api_version="scheduling.koordinator.sh/v1alpha1",
        kind="Reservation",
        name=of,
        uid=Uid(f"uid-{of}"),
        controller=True,
    )
    name = f"{placeholders.NAME_PREFIX}uid-{of}"
    found = pod(*entries, name=name)
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, owner_references=[by]))


def test_a_claim_of_a_placeholder_is_its_reservations_from_the_first():
    found = plan(rsv(phase=""), template(), placeholder(A), of=f"{placeholders.NAME_PREFIX}uid-r")
    (make,) = found.create
    owners = manifests.claim_manifest(make)["metadata"]["ownerReferences"]
    assert [(o["kind"], o["name"], o.get("controller", False)) for o in owners] == [
        ("Pod", f"{placeholders.NAME_PREFIX}uid-r", True),
        ("Reservation", "r", False),
    ]


@pytest.mark.parametrize("allocated", [True, False], ids=["allocated", "not-allocated"])
def test_a_placeholder_that_is_made_again_gets_what_the_first_one_had(allocated):
    before = held(allocated=allocated, entries=None if allocated else [])
    found = plan(rsv(phase=""), before, template(), placeholder(A), of=f"{placeholders.NAME_PREFIX}uid-r")
    assert (taken(found), created(found)) == ({"a": "h"}, [])
    other = plan(rsv(phase=""), held(of="other"), template(), placeholder(A), of=f"{placeholders.NAME_PREFIX}uid-r")
    assert created(other) == ["a"]


def test_who_waits_is_looked_at_again_when_the_claim_or_the_reservation_changes():
    found, claims = index(rsv(), held(controller="q"), template(), owner_pod(A))
    found.dirty.clear()
    see(found, held(), claims)
    assert Uid("uid-p") in found.dirty
    found.dirty.clear()
    found.reservations_changed([NAMESPACE])
    assert Uid("uid-p") in found.dirty
    found.dirty.clear()
    see(found, owner_pod(A, records=[record("a", "h")]), claims)
    found.dirty.clear()
    found.reservations_changed([NAMESPACE])
    assert not found.dirty


def test_a_claim_that_changes_hands_is_its_former_controllers_no_more():
    found, claims = index(held(controller="q"))
    see(found, held(controller="p"), claims)
    assert (found.claims_of((NAMESPACE, "q"), Uid("uid-q")), found.claims_of((NAMESPACE, "p"), Uid("uid-p"))) == (
        frozenset(),
        {(NAMESPACE, "h")},
    )
    found.forget_claim(held(controller="p"))
    assert not found.claims_of((NAMESPACE, "p"), Uid("uid-p"))
