"""Claims that reservations hold: their entries, and the way back from their owners."""

import msgspec
import pytest

from dra.engine.claims import claim_holders
from dra.engine.claims.actions import Deallocate, DeleteClaim, LookUpPod, LookUpWorkload, PatchMetadata
from dra.engine.claims.claim_holders import ClaimHolder, HolderState
from dra.engine.claims.codes import Code
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import LostNode, ObservedHistory, OwningPodPhase, VanishedPod
from dra.engine.reservations import placeholders
from dra.model.claims import POD_CLAIM_NAME, RESERVED_FOR_MAX_SIZE
from dra.model.meta import OwnerReference
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import FORCE_RELEASE
from tests.dra.engine.examples import (
    CLAIM_UID,
    KEY,
    NOON,
    allocation,
    claim,
    codes,
    decided,
    finished,
    listed,
    of_type,
    started,
    uid,
    unschedulable,
    view,
    waiting,
)
from tests.violations import combinations, for_each_case, named

RESERVATION = claim_holders.reservation_owner_reference("r", uid("r"))
ENTRY = claim_holders.reserved_for_entry("r", uid("r"))
PLACEHOLDER = f"{placeholders.NAME_PREFIX}{uid('r')}"


def held(state=HolderState.AVAILABLE, *, is_owner=True):
    return (ClaimHolder(reference=ENTRY, state=state, is_owner=is_owner),)


def made(*, controller=None, **form):
    """A claim that was made for a reservation, with a pod as its controller or none."""
    found = claim(**form)
    owners = [RESERVATION]
    if controller:
        pod = OwnerReference(api_version="v1", kind="Pod", name=controller, uid=uid(controller), controller=True)
        owners.insert(0, pod)
    metadata = msgspec.structs.replace(found.metadata, owner_references=owners)
    return msgspec.structs.replace(found, metadata=metadata)


@for_each_case(
    combinations(
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
        [
            pytest.param(HolderState.AVAILABLE, True, [], [], True, id="available"),
            pytest.param(HolderState.AVAILABLE, False, [], [], True, id="available-and-named"),
            pytest.param(
                HolderState.PENDING, True, [], [waiting(PLACEHOLDER)], False, id="its-placeholder-may-go-elsewhere"
            ),
            pytest.param(HolderState.PENDING, True, [], [started(PLACEHOLDER)], True, id="its-placeholder-is-bound"),
            pytest.param(HolderState.PENDING, True, [], [], True, id="its-placeholder-is-gone"),
            pytest.param(HolderState.PENDING, False, [], [], False, id="named-by-one-that-has-no-place"),
            pytest.param(HolderState.PENDING, False, [ENTRY], [], True, id="named-and-listed-stays"),
            pytest.param(HolderState.UNKNOWN, True, [], [], True, id="in-doubt-made-for-it"),
            pytest.param(HolderState.UNKNOWN, False, [ENTRY], [], True, id="in-doubt-listed"),
        ],
    )
)
def test_a_claim_is_kept_for_its_reservation(policy, state, is_owner, before, pods, stays):
    of = made(list=[*before, *pods]) if is_owner else claim(list=[*before, *pods])
    plan = decided(view(of, *pods, holds=held(state, is_owner=is_owner)), policy=policy)
    entries = listed(plan) if plan.claim_writes else [str(e) for e in of.entries]
    assert any("reservations" in each for each in entries) is stays
    assert not of_type(plan, Deallocate)


def test_a_list_full_of_others_entries_is_as_good_as_that_of_the_reservation():
    others = [ConsumerReference.parse(f"things.example.com/{n}", uid=uid(f"{n}")) for n in range(RESERVED_FOR_MAX_SIZE)]
    assert decided(view(made(list=others), holds=held())).claim_writes == ()


def test_the_end_of_the_placeholder_and_the_entry_are_one_write():
    placeholder = finished(PLACEHOLDER)
    plan = decided(view(made(list=[placeholder]), placeholder, holds=held()))
    assert listed(plan) == [str(ENTRY).partition(".")[0] + "/r"]
    assert Code.HELD in codes(plan)


@pytest.mark.parametrize("state", HolderState)
def test_only_who_is_not_known_is_asked_about(state):
    plan = decided(view(made(list=[ENTRY]), holds=held(state)))
    asked = [LookUpWorkload(claim=KEY, reference=ENTRY)] if state is HolderState.UNKNOWN else []
    assert of_type(plan, LookUpWorkload) == asked


def test_where_nobody_tells_of_reservations_their_entries_are_somebody_elses():
    plan = decided(view(made(list=[ENTRY])))
    assert not plan.claim_writes
    assert codes(plan) == [Code.KEPT_BY_OTHERS]


# The end of the reservation:


@pytest.mark.parametrize(
    ("entries", "owner"),
    [
        pytest.param([ENTRY], OwningPodPhase.NONE, id="listed"),
        pytest.param([], OwningPodPhase.NONE, id="a-failed-binding-has-left-nothing"),
        pytest.param([ENTRY], OwningPodPhase.GONE, id="its-last-owner-is-gone"),
    ],
)
def test_it_is_free_when_its_reservation_is_over(entries, owner):
    plan = decided(view(made(list=entries), holds=held(HolderState.OVER), owning_pod=owner))
    (freed,) = of_type(plan, Deallocate)
    assert freed.confirm


def test_who_uses_it_when_the_reservation_is_over_keeps_it():
    pod = started("a")
    plan = decided(view(made(list=[ENTRY, pod], controller="a"), pod, holds=held(HolderState.OVER)))
    assert listed(plan) == ["a"]
    assert Code.HOLD_ENDED in codes(plan)


def test_the_entry_of_a_reservation_that_is_over_goes_at_once_however_lately_the_list_was_written():
    pod, just_written = started("a"), ObservedHistory(written_at=NOON)
    plan = decided(
        view(claim(list=[ENTRY, pod]), pod, holds=held(HolderState.OVER, is_owner=False), history=just_written)
    )
    assert listed(plan) == ["a"]


@pytest.mark.parametrize("owner", [OwningPodPhase.NONE, OwningPodPhase.GONE], ids=str)
def test_what_was_made_for_it_goes_with_it(owner):
    plan = decided(view(made(list=[ENTRY]), holds=held(HolderState.OVER), owning_pod=owner))
    assert of_type(plan, DeleteClaim)
    plan = decided(view(made(allocation=None), waiting("a"), holds=held(HolderState.OVER), owning_pod=owner))
    assert not of_type(plan, DeleteClaim)
    plan = decided(view(claim(list=[ENTRY]), holds=held(HolderState.OVER, is_owner=False), owning_pod=owner))
    assert not of_type(plan, DeleteClaim)


@pytest.mark.parametrize(
    ("found", "state", "told"),
    [
        pytest.param(made(allocation=None), HolderState.AVAILABLE, [Code.HOLD_LOST], id="lost"),
        pytest.param(made(allocation=None), HolderState.PENDING, [], id="not-placed-yet"),
        pytest.param(made(allocation=None, controller="a"), HolderState.AVAILABLE, [], id="its-placeholder-is-there"),
        pytest.param(made(list=[ENTRY]), HolderState.AVAILABLE, [], id="held"),
    ],
)
def test_an_available_reservation_without_devices_is_told(found, state, told):
    assert codes(decided(view(found, holds=held(state)))) == told


def test_with_that_pod_it_goes():
    pod = finished("a")
    of = made(list=[pod], controller="a")
    plan = decided(view(of, pod, holds=held(HolderState.OVER), owning_pod=OwningPodPhase.DONE))
    assert of_type(plan, Deallocate)
    assert of_type(plan, DeleteClaim)


def test_a_claim_under_deletion_is_not_held_back():
    plan = decided(view(made(list=[ENTRY], deleting=True), holds=held()))
    assert of_type(plan, Deallocate)


def test_force_overrides_a_reservation():
    of = made(list=[ENTRY], annotations={FORCE_RELEASE: claim().metadata.uid})
    plan = decided(view(of, holds=held()))
    assert of_type(plan, Deallocate)


# The way back:


@for_each_case(
    combinations(
        [OwningPodPhase.DONE, OwningPodPhase.REPLACED, OwningPodPhase.GONE],
        [s for s in HolderState if s is not HolderState.OVER],
    )
)
def test_a_claim_goes_back_to_its_reservation_when_its_pod_has_ended(owner, state):
    pod = finished("a")
    of = made(list=[ENTRY, pod], controller="a", annotations={POD_CLAIM_NAME: "gpu"})
    plan = decided(view(of, pod, holds=held(state), owning_pod=owner))
    (back,) = of_type(plan, PatchMetadata)
    assert back.owners == (RESERVATION,)
    assert dict(back.annotations) == {POD_CLAIM_NAME: None}
    assert listed(plan) == ["reservations/r"]
    assert not of_type(plan, Deallocate) + of_type(plan, DeleteClaim)


@pytest.mark.parametrize(
    ("state", "pods", "goes"),
    [
        pytest.param(HolderState.AVAILABLE, [finished("a")], True, id="available"),
        pytest.param(HolderState.UNKNOWN, [finished("a")], True, id="in-doubt"),
        pytest.param(HolderState.AVAILABLE, [finished("a"), started("b")], False, id="somebody-else-uses-it"),
    ],
)
def test_where_the_garbage_collector_was_first_the_entry_of_an_ended_pod_goes_at_once(state, pods, goes):
    """The next owner would wait for that entry, however lately the list was written."""
    just_written = ObservedHistory(written_at=NOON)
    plan = decided(view(made(list=[ENTRY, *pods]), *pods, holds=held(state), history=just_written))
    assert (listed(plan) if plan.claim_writes else None) == (["reservations/r"] if goes else None)


@pytest.mark.parametrize(
    ("pods", "owner", "policy"),
    [
        pytest.param([started("a")], OwningPodPhase.PRESENT, REPLACE, id="it-runs"),
        pytest.param([waiting("a")], OwningPodPhase.PRESENT, REPLACE, id="it-waits"),
        pytest.param([], OwningPodPhase.UNKNOWN, REPLACE, id="it-may-not-have-been-seen-yet"),
        pytest.param([started("b")], OwningPodPhase.DONE, REPLACE, id="somebody-uses-it"),
        pytest.param([], OwningPodPhase.DONE, ALONGSIDE, id="beside-the-stock-controller-nothing-is-given"),
    ],
)
def test_else_it_stays_its_pods(pods, owner, policy):
    of = made(list=[ENTRY, *pods], controller="a")
    plan = decided(view(of, *pods, holds=held(), owning_pod=owner), policy=policy)
    assert not of_type(plan, PatchMetadata) + of_type(plan, DeleteClaim) + of_type(plan, Deallocate)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({"vanished": (VanishedPod(uid("a"), node="n1", since=NOON),)}, id="deleted-by-force"),
        pytest.param({"lost_nodes": (LostNode(name="n1"),)}, id="its-node-does-not-report-in"),
    ],
)
def test_it_stays_a_vanished_pods_while_that_may_run(known):
    plan = decided(view(made(list=[ENTRY], controller="a"), holds=held(), owning_pod=OwningPodPhase.GONE, **known))
    assert not of_type(plan, PatchMetadata)


def test_it_stays_a_listed_pods_that_nobody_has_looked_up_yet():
    plan = decided(
        view(made(list=[ENTRY, finished("a")], controller="a"), holds=held(), owning_pod=OwningPodPhase.REPLACED)
    )
    assert [look.uid for look in of_type(plan, LookUpPod)] == [uid("a")]
    assert not of_type(plan, PatchMetadata)


def test_an_owner_that_cannot_run_does_not_take_the_devices_from_the_reservation():
    pod = unschedulable("a", since=NOON - 3600)
    plan = decided(view(made(list=[ENTRY], controller="a"), pod, holds=held()), now=NOON)
    assert not of_type(plan, Deallocate)
    assert Code.ALLOCATION_STUCK not in codes(plan)


# Rule 13: claims that were made for a pod


DELETED = [DeleteClaim(claim=KEY, uid=CLAIM_UID)]


@pytest.mark.parametrize(
    ("phase", "deleted"),
    [
        pytest.param(OwningPodPhase.DONE, DELETED, id="done"),
        pytest.param(OwningPodPhase.REPLACED, DELETED, id="another-pod-has-its-name"),
        pytest.param(OwningPodPhase.PRESENT, [], id="it-may-run"),
        pytest.param(OwningPodPhase.UNKNOWN, [], id="not-seen-is-for-the-garbage-collector"),
        pytest.param(OwningPodPhase.NONE, [], id="made-by-hand"),
    ],
)
def test_an_unused_claim_goes_with_its_pod(phase, deleted):
    unused = view(claim(allocation=None), owning_pod=phase)
    assert of_type(decided(unused), DeleteClaim) == deleted
    assert of_type(decided(unused, policy=ALONGSIDE), DeleteClaim) == []


def test_it_is_deallocated_first():
    a = finished("a")
    plan = decided(view(claim(allocation=allocation(), list=[a]), a, owning_pod=OwningPodPhase.DONE), policy=REPLACE)
    assert [type(action) for action in plan.actions] == [Deallocate, PatchMetadata, DeleteClaim]


def test_it_stays_while_another_pod_uses_it():
    a, b = finished("a"), started("b")
    plan = decided(view(claim(allocation=allocation(), list=[a, b]), a, b, owning_pod=OwningPodPhase.DONE))
    assert of_type(plan, DeleteClaim) == []
