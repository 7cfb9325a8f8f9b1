"""How a write gets to a claim: as a patch of a version, without one, or byte for byte."""

import msgspec
import pytest

from dra.engine.claims.actions import AddEntries, Deallocate, PatchMetadata
from dra.engine.claims.view import tombstone_entry
from dra.kube.errors import Conflict, Invalid, Status, StatusCause, StatusDetails
from dra.kube.rate_limiter import RequestPriority
from dra.model import workload_reservations
from dra.model.claims import ResourceClaim
from dra.requests.claim_patcher import ClaimPatcher
from tests.controller.cluster import CLAIMS, Cluster
from tests.dra.engine.examples import JOB, KEY, NAMESPACE, finished, uid, waiting
from tests.dra.kube.scripted import client_of, refusal

ALLOCATION = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "gpu-0"}]}}
NOTE = PatchMetadata(claim=KEY, annotations=(("x", "1"),))
FREE = Deallocate(claim=KEY)
ENTER = AddEntries(claim=KEY, entries=(JOB,))
UNPATCHABLE = Status(code=422, details=StatusDetails(causes=[StatusCause(reason="FieldValueInvalid", field="spec")]))


@pytest.fixture
def cluster():
    """A cluster with an allocated claim."""
    served = Cluster()
    served.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION})
    return served


@pytest.fixture
def claim(cluster):
    """The claim as it is decided on."""
    return msgspec.convert(cluster.objects[cluster.path(CLAIMS, NAMESPACE, "train")], ResourceClaim)


@pytest.fixture
def client(cluster):
    return client_of(cluster)


@pytest.fixture
def send(client, claim):
    patching = ClaimPatcher(client)

    async def sent(write):
        return await patching.patch(write, claim, priority=RequestPriority.NORMAL, write_timeout=lambda: 5.0)

    return sent


async def test_an_entry_needs_no_version(cluster, send):
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "future": 1})
    after = await send(ENTER)
    ((_, subresource, operations),) = cluster.writes()
    assert (subresource, operations[0]) == ("status", {"op": "test", "path": "/metadata/uid", "value": "uid-train"})
    assert after.entries == (JOB,)


@pytest.mark.parametrize("listed", [[], ["a"]], ids=["an-empty-list", "beside-a-pod"])
@pytest.mark.parametrize("notes", [{}, {"x": "1"}], ids=["without-annotations", "with-annotations"])
async def test_an_entry_that_arrives_after_one_was_made_and_released_is_refused(cluster, client, listed, notes):
    pods = [{"resource": "pods", "name": name, "uid": uid(name)} for name in listed]
    status = {"allocation": ALLOCATION, "reservedFor": pods}
    before = cluster.put(CLAIMS, NAMESPACE, "train", status=status, metadata={"annotations": notes})
    entered = {**notes, workload_reservations.ENTERED_ALLOCATION: "0123456789abcdef"}
    cluster.put(CLAIMS, NAMESPACE, "train", status=status, metadata={"annotations": entered})
    with pytest.raises(Conflict):
        await ClaimPatcher(client).patch(
            ENTER, msgspec.convert(before, ResourceClaim), priority=RequestPriority.NORMAL, write_timeout=lambda: 5.0
        )


async def test_an_entry_is_added_to_a_list_that_has_changed(cluster, client):
    lists = [[{"resource": "pods", "name": name, "uid": uid(name)} for name in names] for names in ("a", "abc")]
    before, _ = (
        cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": entries})
        for entries in lists
    )
    after = await ClaimPatcher(client).patch(
        ENTER, msgspec.convert(before, ResourceClaim), priority=RequestPriority.NORMAL, write_timeout=lambda: 5.0
    )
    assert [entry.uid for entry in after.entries] == [uid("a"), uid("b"), uid("c"), JOB.uid]


async def test_an_entry_takes_the_place_of_the_one_with_its_uid(cluster, send):
    pods = [{"resource": "pods", "name": name, "uid": uid(name)} for name in "ab"]
    cluster.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION, "reservedFor": pods})
    tombstone = tombstone_entry(finished("a").entry)
    after = await send(AddEntries(claim=KEY, entries=(tombstone,)))
    assert sorted(after.entries, key=lambda e: e.name) == [tombstone, waiting("b").entry]


async def test_a_list_that_takes_no_entry_has_been_changed_by_somebody_else(cluster, send):
    cluster.answer["PATCH"] = refusal(422, "Invalid", causes=[{"field": "status.reservedFor"}])
    with pytest.raises(Conflict):
        await send(ENTER)


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(StatusCause(reason="FieldValueInvalid", field="status.reservedFor"), id="it-is-our-own-mistake"),
        pytest.param(
            StatusCause(reason="FieldValueForbidden", field="status.allocation"), id="we-have-no-right-to-bind"
        ),
    ],
)
async def test_what_would_be_refused_in_any_form_is_not_rewritten(cluster, send, cause):
    cluster.answer["PATCH"] = refusal(422, "Invalid", causes=[msgspec.to_builtins(cause)])
    with pytest.raises(Invalid):
        await send(NOTE)
    assert [request.method for request in cluster.requests] == ["PATCH"]


async def test_a_claim_that_cannot_be_patched_is_rewritten_and_from_then_on_at_once(client, claim, send):
    ways = []

    async def patch(*_, **__):
        ways.append("patch")
        raise Invalid("claim", UNPATCHABLE)

    async def rewrite(_, __, body, *, subresource, **___):
        ways.append(f"rewrite {subresource} {len(body.get('status', {}).get('reservedFor') or ())}")
        return claim

    client.merge_patch, client.update_as_protobuf = patch, rewrite
    for write in (NOTE, FREE, ENTER):
        await send(write)
    assert ways == ["patch", "rewrite None 0", "rewrite status 0", "rewrite status 1"]
