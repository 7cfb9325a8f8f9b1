"""Held claims on their way to owners' pods: the requests, and what comes between them."""

import asyncio

import msgspec

from dra.engine.claims import claim_holders
from dra.engine.claims.codes import Code
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import REPLACE
from dra.kube.transport import MERGE_PATCH
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from tests.dra.engine.claims.generation.examples import entry, template
from tests.dra.engine.claims.generation.test_held_claims import held, owner_pod, rsv
from tests.dra.engine.examples import NAMESPACE
from tests.dra.kube.scripted import body_of, ok, refusal

CLAIM = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims/h"
STATUS = f"/api/v1/namespaces/{NAMESPACE}/pods/p/status"


class Server:
    """One claim, and the status of any pod."""

    def __init__(self, claim, *pods):
        self.claim = msgspec.to_builtins(claim)
        self.pods = {each.metadata.name: msgspec.to_builtins(each) for each in pods}
        self.version = 100
        self.refuse = {}

    def __call__(self, request):
        self.version += 1
        if request.method in self.refuse:
            return self.refuse.pop(request.method)
        body = body_of(request) if request.body else {}
        if request.path == CLAIM:
            if request.method == "PATCH":
                metadata = {**self.claim["metadata"], **body["metadata"], "resourceVersion": str(self.version)}
                self.claim = {**self.claim, "metadata": metadata}
            return ok(self.claim)
        if request.method == "POST":
            metadata = body["metadata"] | {"name": "new", "namespace": NAMESPACE, "uid": "uid-new"}
            return ok({**body, "metadata": metadata | {"resourceVersion": str(self.version)}}, status=201)
        known = self.pods[request.path.split("/")[-2]]
        metadata = {**known["metadata"], "resourceVersion": str(self.version)}
        return ok({**known, "metadata": metadata, "status": body["status"]})


def see(world, claim, *pods, reservation=None):
    world.watch_reservations()
    world.owners.observe_template(template())
    world.observe_reservation(Uid("uid-r"), reservation or rsv())
    world.observe_claim(claim, now=0.0)
    for each in pods:
        world.observe_pod(each, now=0.0)


def versioned(claim, version):
    metadata = msgspec.structs.replace(claim.metadata, resource_version=str(version))
    return msgspec.structs.replace(claim, metadata=metadata)


def steps(transport):
    return [(request.method, request.path) for request in transport.requests]


async def test_a_held_claim_is_given_in_one_write_and_named_in_the_next(world, generating):
    claim, pod = versioned(held(), 7), owner_pod(entry("a"))
    see(world, claim, pod)
    async with generating(Server(claim, pod)) as transport:
        assert steps(transport) == [("PATCH", CLAIM), ("PATCH", STATUS)]
        given, named = transport.requests
        assert given.content_type == MERGE_PATCH
        metadata = body_of(given)["metadata"]
        assert (metadata["resourceVersion"], metadata["uid"]) == ("7", "uid-h")
        assert [(o["kind"], o.get("controller", False)) for o in metadata["ownerReferences"]] == [
            ("Pod", True),
            ("Reservation", False),
        ]
        assert body_of(named)["status"] == {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "h"}]}
        assert [reason.code for reason in transport.reasons] == [Code.HANDED_OVER]


async def test_who_was_too_late_gets_a_new_one(world, generating):
    """Somebody else has got it meanwhile, and the watch has not told."""
    claim, pod = versioned(held(), 7), owner_pod(entry("a"))
    see(world, claim, pod, owner_pod(entry("a"), name="q", records=()))
    server = Server(versioned(held(controller="q"), 9), pod, owner_pod(entry("a"), name="q"))
    server.refuse["PATCH"] = refusal(409, "Conflict")
    world.owners.dirty.discard(Uid("uid-q"))
    async with generating(server) as transport:
        await asyncio.sleep(2.0)
        assert steps(transport)[:2] == [("PATCH", CLAIM), ("GET", CLAIM)]
        assert ("POST", CLAIM.rpartition("/")[0]) in steps(transport)
        assert steps(transport)[-1] == ("PATCH", STATUS)


async def test_who_waits_for_its_predecessor_is_served_when_the_claim_is_back(world, generating):
    claim, pod = versioned(held(controller="q"), 7), owner_pod(entry("a"))
    former = owner_pod(entry("a"), name="q", phase="Succeeded")
    see(world, claim, pod, former)
    back = versioned(held(), 8)
    async with generating(Server(back, pod)) as transport:
        assert transport.requests == []
        assert [reason.code for reason in transport.reasons] == [Code.WAITS_FOR_HELD]
        world.observe_claim(back, now=1.0)
        transport.loop.enqueue_dirty()
        await asyncio.sleep(0.2)
        assert steps(transport) == [("PATCH", CLAIM), ("PATCH", STATUS)]


def test_the_world_forgets_no_reservation_by_itself(world):
    world.watch_reservations()
    world.observe_claim(held(), now=0.0)
    found = decide(world.view((NAMESPACE, "h"), now=0.0), policy=REPLACE, now=0.0)
    assert not found.claim_writes
    world.forget_reservation(Uid("uid-r"))
    assert (NAMESPACE, "h") in world.dirty
    freed = decide(world.view((NAMESPACE, "h"), now=0.0), policy=REPLACE, now=0.0)
    assert freed.claim_writes
    assert isinstance(world.claim((NAMESPACE, "h")), ResourceClaim)
    assert claim_holders.reserved_for_entry("r", Uid("uid-r")) in world.claim((NAMESPACE, "h")).entries
