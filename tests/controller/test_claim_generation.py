import asyncio
import json

import msgspec
import pytest

from controller.claim_generation import NO_ADMIN_ACCESS
from dra.engine.claims.codes import Code
from dra.engine.claims.generation import manifests
from dra.engine.claims.generation.attempts import RETRY
from dra.kube.codec import codec_of
from dra.kube.resources import TEMPLATES
from dra.kube.transport import APPLY_PATCH
from dra.model.templates import ResourceClaimTemplateSpec, WatchedTemplate
from tests.dra.engine.claims.generation.examples import claim, entry, group, pod, record, template
from tests.dra.engine.examples import NAMESPACE
from tests.dra.kube.scripted import body_of, ok, page, refusal

CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
POD_STATUS = f"/api/v1/namespaces/{NAMESPACE}/pods/p/status"
GROUP_STATUS = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups/g/status"


class Server:
    """Creates claims, takes over the statuses that are applied, and shows the objects that it has."""

    def __init__(self, *objects):
        self.objects = {each.metadata.name: msgspec.to_builtins(each) for each in objects}
        self.refuse = {}
        """Method → answer."""
        self.made = 100
        """Objects, as their resourceVersions."""

    def __call__(self, request):
        if request.method in self.refuse:
            return self.refuse[request.method]
        if request.method == "GET":
            name = request.path.split("/")[-1]
            found = self.objects.get(name)
            return ok(found) if found is not None else refusal(404, "NotFound", name=name)
        return self.create(body_of(request)) if request.method == "POST" else self.apply(request)

    def create(self, claim):
        self.made += 1
        metadata = claim["metadata"]
        name = f"{metadata.pop('generateName')}{self.made}"
        told = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": str(self.made)}
        return ok({**claim, "metadata": {**metadata, **told}}, status=201)

    def apply(self, request):
        name = request.path.split("/")[-2]
        known = self.objects.get(name)
        if known is None:
            return refusal(404, "NotFound", name=name)
        self.made += 1
        metadata = {**known["metadata"], "resourceVersion": str(self.made)}
        return ok({**known, "metadata": metadata, "status": {**known["status"], **body_of(request)["status"]}})


def see(world, *objects):
    for each in objects:
        match type(each).__name__:
            case "Pod":
                world.observe_pod(each, now=0.0)
            case "PodGroup":
                world.owners.observe_group(each)
            case _:
                world.owners.observe_template(each)


def steps(transport):
    return [(request.method, request.path) for request in transport.requests]


def created(metrics, status, *, group="", kind="Pod"):
    return metrics.creations.labels(status, "false", group, kind)._value.get()


async def test_a_claim_is_made_and_then_recorded_and_then_all_is_well(world, generating, metrics):
    see(world, template(), pod(entry("a")))
    async with generating(Server(pod(entry("a")))) as transport:
        assert steps(transport) == [("POST", CLAIMS), ("PATCH", POD_STATUS)]
        claim, record = transport.requests
        assert body_of(claim)["metadata"]["generateName"] == "p-a-"
        assert body_of(record)["status"] == {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "p-a-101"}]}
        assert record.query == {"fieldManager": manifests.FIELD_MANAGER, "force": "true"}
        assert record.content_type == APPLY_PATCH
        assert body_of(record)["metadata"]["uid"] == "uid-p"
        assert created(metrics, "success") == 1
        await asyncio.sleep(RETRY[1])
        assert len(transport.requests) == 2


async def test_a_status_that_does_not_take_the_names_is_written_at_the_pace_of_failures(world, generating):
    server = Server(pod(entry("a")))
    server.refuse["PATCH"] = ok(msgspec.to_builtins(pod(entry("a"))))
    see(world, template(), pod(entry("a")))
    async with generating(server) as transport:
        await asyncio.sleep(RETRY[1])
        assert len(transport.requests) < 10


async def test_claims_that_lose_their_owner_are_made_at_the_pace_of_failures(world, generating):
    server = Server(pod(entry("a")))
    server.refuse["POST"] = ok({"metadata": {"name": "c", "namespace": NAMESPACE, "uid": "c"}, "spec": {}}, status=201)
    see(world, template(), pod(entry("a")))
    async with generating(server) as transport:
        await asyncio.sleep(RETRY[1])
        assert len(transport.requests) < 10


PARAMETERS = [{"opaque": {"driver": "x.example.com", "parameters": {"x": [{}] * 3380}}}] * 32


async def test_a_template_that_is_too_large_for_the_cache_is_read_when_it_is_used(world, generating, metrics):
    devices = {"requests": [{"name": "d", "exactly": {"deviceClassName": "gpu"}}], "config": PARAMETERS}
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": devices}}
    whole = {**msgspec.to_builtins(template()), "spec": spec}
    kept = codec_of(TEMPLATES, WatchedTemplate).one(json.dumps(whole).encode())
    assert kept.is_reduced
    server = Server(pod(entry("a")))

    def handle(request):
        if request.path.endswith("/resourceclaimtemplates"):
            assert request.query["fieldSelector"] == f"metadata.name={kept.metadata.name}"
            return page(whole)
        return server(request)

    see(world, kept, pod(entry("a")))
    async with generating(handle) as transport:
        assert [method for method, _ in steps(transport)] == ["GET", "POST", "PATCH"]
        made = body_of(transport.requests[1])
        assert made["spec"] == {"devices": devices}
        assert made["metadata"]["labels"] == {"a": "b"}
        assert created(metrics, "success") == 1


async def test_a_large_template_that_is_gone_makes_no_claim(world, generating):
    kept = msgspec.convert(msgspec.to_builtins(template()), WatchedTemplate).reduced()
    server = Server(pod(entry("a")))
    see(world, kept, pod(entry("a")))
    async with generating(lambda request: page() if request.method == "GET" else server(request)) as transport:
        await asyncio.sleep(5.0)
        assert {method for method, _ in steps(transport)} == {"GET"}


async def test_what_was_made_is_not_made_again_when_it_cannot_be_recorded(world, generating):
    server = Server(pod(entry("a")))
    server.refuse["PATCH"] = refusal(500, "InternalError")
    see(world, template(), pod(entry("a")))
    async with generating(server) as transport:
        assert steps(transport)[0] == ("POST", CLAIMS)
        await asyncio.sleep(5.0)
        server.refuse.clear()
        await asyncio.sleep(30.0)
        assert [method for method, _ in steps(transport)].count("POST") == 1
        assert steps(transport)[-1] == ("PATCH", POD_STATUS)
        assert world.owner_view("uid-p").owner.recorded[0].resource_claim_name == "p-a-101"


async def test_a_refusal_is_told_in_the_words_of_the_stock_controller_and_tried_again(world, generating, metrics):
    server = Server(pod(entry("a")))
    server.refuse["POST"] = refusal(403, "Forbidden", "exceeded quota: claims")
    see(world, template(), pod(entry("a")))
    async with generating(server) as transport:
        reason = transport.reasons[0]
        assert reason.code is Code.GENERATION_FAILED
        assert reason.text == "pod ml/p: PodResourceClaim a: create ResourceClaim : exceeded quota: claims"
        assert created(metrics, "failure") == len(transport.requests) == 1
        server.refuse.clear()
        await asyncio.sleep(2 * RETRY[0])
        assert created(metrics, "success") == 1


async def test_a_missing_template_is_told_once_and_waited_for(world, generating):
    see(world, pod(entry("a")))
    async with generating(Server(pod(entry("a")))) as transport:
        await asyncio.sleep(10 * RETRY[0])
        assert [reason.code for reason in transport.reasons] == [Code.GENERATION_FAILED]
        assert transport.requests == []
        see(world, template())
        transport.loop.enqueue_dirty()
        await asyncio.sleep(0.1)
        assert steps(transport) == [("POST", CLAIMS), ("PATCH", POD_STATUS)]


async def test_a_template_that_goes_after_a_refusal_is_waited_for_with_pauses(world, generating, monkeypatch):
    server = Server(pod(entry("a")))
    server.refuse["POST"] = refusal(403, "Forbidden", "exceeded quota: claims")
    see(world, template(), pod(entry("a")))
    async with generating(server) as transport:
        assert len(transport.requests) == 1
        world.owners.forget_template(template().metadata.key)
        plans = []

        async def counted(uid, reconcile=transport.loop.reconcile):
            plans.append(uid)
            if len(plans) > 50:
                await asyncio.sleep(RETRY[1])
            return await reconcile(uid)

        monkeypatch.setattr(transport.loop, "reconcile", counted)
        transport.loop.enqueue_dirty()
        await asyncio.sleep(RETRY[1] / 2)
        assert 1 <= len(plans) <= 20


async def test_who_is_gone_when_it_is_recorded_is_forgotten(world, generating):
    see(world, template(), pod(entry("a")))
    async with generating(Server()) as transport:
        await asyncio.sleep(RETRY[1])
        assert steps(transport) == [("POST", CLAIMS), ("PATCH", POD_STATUS)]
        assert world.owner_view("uid-p") is None


LOST = (record("a", "p-a-1"),)
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/p"
READ = [("GET", POD), ("GET", f"{CLAIMS}/p-a-1")]


def changed(of, **metadata):
    return msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, **metadata))


@pytest.mark.parametrize(
    ("there", "made"),
    [
        pytest.param([pod(entry("a"), records=LOST)], ["p-a-101"], id="the-pod-is-there"),
        pytest.param([], None, id="the-pod-is-gone"),
        pytest.param(
            [changed(pod(entry("a"), records=LOST), resource_version="2", deletion_timestamp="2026-11-22T12:00:00Z")],
            [],
            id="the-pod-is-being-deleted",
        ),
        pytest.param([changed(pod(), uid="uid-other")], None, id="another-pod-has-its-name"),
    ],
)
async def test_a_claim_that_is_gone_is_made_anew_for_a_pod_that_is_there(world, generating, there, made):
    see(world, template(), pod(entry("a"), records=LOST))
    async with generating(Server(*there)) as transport:
        await asyncio.sleep(RETRY[0])
        assert steps(transport)[:2] == READ
        assert steps(transport)[2:] == ([("POST", CLAIMS), ("PATCH", POD_STATUS)] if made else [])
        found = world.owner_view("uid-p")
        assert (found and [claim.metadata.name for claim in found.owned]) == made


async def test_a_claim_that_a_live_read_shows_is_not_made_anew(world, generating):
    known = pod(entry("a"), records=LOST)
    see(world, template(), known)
    async with generating(Server(known, claim("p-a-1", made_for="a"))) as transport:
        await asyncio.sleep(RETRY[1])
        assert steps(transport) == READ


async def test_no_claim_is_made_in_the_place_of_one_that_a_restored_backup_has_brought_back(world, generating):
    known, restored = pod(entry("a"), records=LOST), claim("p-a-1", made_for="a")
    see(world, template(), known)
    world.observe_claim(restored, now=0.0)
    world.forget_claim(restored.metadata.key, restored.metadata.uid)
    async with generating(Server(known, restored)) as transport:
        await asyncio.sleep(RETRY[0] / 2)
        assert steps(transport) == READ
        await asyncio.sleep(RETRY[1])
        assert len(steps(transport)) > len(READ)
        assert {method for method, _ in steps(transport)} == {"GET"}


async def test_claims_of_a_group_that_is_gone_are_not_made_anew(world, generating):
    world.owners.groups_version = "v1alpha2"
    see(world, template(), group(entry("a"), records=[record("a", "g-a-1")]))
    async with generating(Server()) as transport:
        await asyncio.sleep(RETRY[0])
        assert steps(transport) == [("GET", GROUP_STATUS.removesuffix("/status")), ("GET", f"{CLAIMS}/g-a-1")]
        assert world.owner_view("uid-g") is None


NOT_SERVED = refusal(404, "NotFound", "the server could not find the requested resource")


@pytest.mark.parametrize(
    ("method", "records"), [("PATCH", ()), ("GET", [record("a", "g-a-1")])], ids=["its-status", "its-object"]
)
async def test_a_group_that_one_api_server_does_not_serve_yet_is_not_forgotten(world, generating, method, records):
    """During an upgrade of the control plane, a request may reach a server of the earlier version."""
    world.owners.groups_version = "v1alpha2"
    known = group(entry("a"), records=records)
    see(world, template(), known)
    server = Server(known)
    server.refuse[method] = NOT_SERVED
    async with generating(server) as transport:
        await asyncio.sleep(RETRY[0])
        assert world.owner_view("uid-g") is not None
        server.refuse.clear()
        await asyncio.sleep(10 * RETRY[0])
        assert steps(transport)[-1] == ("PATCH", GROUP_STATUS)
        assert world.owner_view("uid-g").owner.recorded[0].resource_claim_name != "g-a-1"


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha2"], ids=["1.37", "1.36"])
async def test_a_group_has_its_claims_made_in_the_version_that_is_served(world, generating, metrics, version):
    world.owners.groups_version = version
    see(world, template(), group(entry("a")))
    async with generating(Server(group(entry("a")))) as transport:
        assert steps(transport) == [("POST", CLAIMS), ("PATCH", GROUP_STATUS.replace("v1alpha2", version))]
        claim, record = map(body_of, transport.requests)
        assert claim["metadata"]["ownerReferences"][0]["apiVersion"] == f"scheduling.k8s.io/{version}"
        assert (record["apiVersion"], record["kind"]) == (f"scheduling.k8s.io/{version}", "PodGroup")
        assert created(metrics, "success", group="scheduling.k8s.io", kind="PodGroup") == 1


async def test_one_that_cannot_be_decided_stops_no_other_and_is_tried_again(world, generating, metrics, monkeypatch):
    view_of = world.owner_view
    monkeypatch.setattr(world, "owner_view", lambda uid: 1 / 0 if uid == "uid-p" else view_of(uid))
    see(world, template(), pod(entry("a")), pod(entry("a"), name="q"))
    async with generating(Server(pod(entry("a")), pod(entry("a"), name="q"))) as transport:
        assert len(steps(transport)) == 2
        assert metrics.failures._value.get() >= 1
        monkeypatch.undo()
        await asyncio.sleep(2 * RETRY[0])
        assert steps(transport)[2:] == [("POST", CLAIMS), ("PATCH", POD_STATUS)]


@pytest.mark.parametrize("dropped", [False, True], ids=["kept", "dropped-by-the-server"])
async def test_a_claim_with_admin_access_is_only_made_where_the_server_keeps_that(world, generating, metrics, dropped):
    class Old(Server):
        def create(self, claim):
            if dropped:
                for request in claim["spec"]["devices"]["requests"]:
                    request["exactly"].pop("adminAccess", None)
            return super().create(claim)

    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}]}}
    asks = msgspec.structs.replace(template(), spec=ResourceClaimTemplateSpec(spec=spec))
    see(world, asks, pod(entry("a")))
    async with generating(Old(pod(entry("a")))) as transport:
        posts = [request.query for request in transport.requests if request.method == "POST"]
        assert posts == ([{"dryRun": "All"}] if dropped else [{"dryRun": "All"}, {}])
        told = [reason.note for reason in transport.reasons if reason.code is Code.GENERATION_FAILED]
        assert [NO_ADMIN_ACCESS in note for note in told] == ([True] if dropped else [])
        await asyncio.sleep(10 * RETRY[0])
        failed = metrics.creations.labels("failure", "true", "", "Pod")._value.get()
        assert (len(transport.requests) > 1, failed) == (True, 0), "upstream counts no failed creation, however often"


async def test_a_refused_claim_is_not_requested_again_at_each_event(world, generating):
    """Other controllers write pods that wait, and each such event enqueues the owner at once."""
    server = Server(pod(entry("a")))
    server.refuse["POST"] = refusal(403, "Forbidden", "exceeded quota: claims")
    see(world, template(), pod(entry("a")))
    async with generating(server) as transport:
        for _ in range(100):
            world.owners.dirty.add("uid-p")
            transport.loop.enqueue_dirty()
            await asyncio.sleep(0.1)
        assert 3 <= len(steps(transport)) <= 7
        see(world, template(labels={"team": "blue"}))
        transport.loop.enqueue_dirty()
        server.refuse.clear()
        await asyncio.sleep(0.2)
        assert steps(transport)[-2:] == [("POST", CLAIMS), ("PATCH", POD_STATUS)], "a changed template is tried at once"


class LargeServer(Server):
    """Has one template, which is too large for the cache."""

    def __init__(self, *objects):
        super().__init__(*objects)
        self.template = msgspec.to_builtins(template())
        self.readable = True

    def __call__(self, request):
        if request.path.endswith("/resourceclaimtemplates"):
            return ok({"metadata": {"resourceVersion": "9"}, "items": [self.template] if self.readable else []})
        return super().__call__(request)


def large_template():
    return WatchedTemplate(**msgspec.structs.asdict(template())).reduced()


@pytest.mark.parametrize("readable", [True, False], ids=["refused", "not-readable"])
async def test_a_large_template_is_not_read_again_at_each_event(world, generating, readable):
    """It takes a megabyte to read, and must not stay in memory for as long as its claim is refused."""
    server = LargeServer(pod(entry("a")))
    server.readable = readable
    server.refuse["POST"] = refusal(403, "Forbidden", "exceeded quota: claims")
    see(world, large_template(), pod(entry("a")))
    async with generating(server) as transport:
        for _ in range(100):
            world.owners.dirty.add("uid-p")
            transport.loop.enqueue_dirty()
            await asyncio.sleep(0.1)
        assert 3 <= len([path for _, path in steps(transport) if path.endswith("/resourceclaimtemplates")]) <= 7
        assert world.owners.attempts.of("uid-p").refused.template.spec.spec == {}
        server.refuse.clear()
        server.readable = True
        await asyncio.sleep(10)
        assert steps(transport)[-2:] == [("POST", CLAIMS), ("PATCH", POD_STATUS)]
