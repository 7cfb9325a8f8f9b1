"""The page of a cluster shows each user what the user's rights cover, and nothing else."""

import asyncio
import json
import logging

import pytest

from bench.page_cluster import claim
from dra.cli.page import page_server, shared_cluster, team_gate
from dra.cli.page.access import HEADERS
from dra.cli.page.views import COLUMNS
from dra.kube.resources import CLAIMS, PODS
from dra.kube.transport import Request, Response
from dra.model.workload_reservations import RESERVED_FOR
from tests.dra.cli.page.team_cluster import SlowReviews, read_event, running, tenant_pod, two_tenants

FOREIGN = ("secret", "other", "gpu-1", "gpu-2", "n2", "system:serviceaccount")
"""Texts that no answer to a user with rights in namespace ml may contain."""


async def test_an_operator_sees_all_namespaces_devices_and_nodes():
    async with running(await two_tenants()) as browser:
        claims = await browser.view("claims", "operator-token", wanted={"ml/train", "other/secret", "other/secret-too"})
        assert claims["other/secret"]["STATE"] == "InUse"
        devices = {f"gpu.example.com/n1/gpu-{each}" for each in range(4)}
        rows = await browser.view("devices", "operator-token", wanted=devices)
        assert rows["gpu.example.com/n1/gpu-1"]["HELD-BY"] == "other/secret"
        assert rows["gpu.example.com/n1/gpu-3"]["STATE"] == "Free"
        assert (await browser.view("nodes", "operator-token", wanted={"n1"}))["n1"]["MAP"] == "UUFF"


async def test_a_tenant_sees_the_namespace_and_no_byte_of_another():
    server = await two_tenants()
    async with running(server) as browser:
        await browser.view("claims", "operator-token", wanted={"ml/train", "other/secret", "other/secret-too"})
        claims = await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        assert (claims["ml/train"]["STATE"], claims["ml/train"]["PODS"]) == ("InUse", "1")
        await browser.view("problems", "ml-token", "ml", wanted=set())
        paths = [
            "/api/session?ns=ml",
            *(f"/api/rows?view={view}&ns=ml" for view in COLUMNS),
            "/api/object?ns=ml&kind=claim&namespace=ml&name=train",
            "/api/object?ns=ml&kind=pod&namespace=ml&name=train-pod",
            "/api/object?ns=ml&kind=claim&namespace=ml&name=missing",
        ]
        for path in paths:
            status, text = await browser.answer(path, "ml-token")
            assert not [each for each in FOREIGN if each in text.replace("of other namespaces", "")], path
            assert status in {200, 403}


NOT_REGISTERED = "DRA driver gpu.example.com is not registered"


@pytest.mark.parametrize(
    ("kinds", "is_told"),
    [
        pytest.param(frozenset({"pods", "events"}), True, id="with-the-right-to-list-events"),
        pytest.param(frozenset({"pods"}), False, id="without"),
    ],
)
async def test_what_a_kubelet_could_not_prepare_is_told_to_users_who_may_list_events(kinds, is_told):
    server = await two_tenants()
    server.users["ml-token"] = ("ml-user", {("ml", kind) for kind in {"resourceclaims", *kinds}})
    await server.create("ResourceClaim", claim("new", "ml", "n1/gpu-2"), "ml")
    made = tenant_pod("new-pod", "ml", "new", on="n1")
    made["status"] = {"phase": "Pending"}
    await server.create("Pod", made, "ml")
    await server.create("Event", await failed_preparation(server, "ml", "new-pod"), "ml")
    async with running(server) as browser:
        _, text = await browser.answer("/api/object?ns=ml&kind=pod&namespace=ml&name=new-pod", "ml-token")
        assert (NOT_REGISTERED in text) == is_told
        assert ("events.events.k8s.io" in text) == (not is_told)
        _, text = await browser.answer("/api/rows?view=problems&ns=other", "other-token")
        assert NOT_REGISTERED not in text


@pytest.mark.parametrize(
    ("token", "namespace", "reasons"),
    [
        pytest.param("operator-token", "", ["Deallocated"], id="all-namespaces"),
        pytest.param("ml-token", "ml", ["Deallocated"], id="one-namespace"),
        pytest.param("claims-token", "ml", None, id="without-the-right-to-list-events"),
    ],
)
async def test_the_events_of_a_claim_are_shown_to_users_who_may_list_them(token, namespace, reasons):
    server = await two_tenants()
    path = CLAIMS.path("ml", "train")
    about = json.loads((await server.server.handle(Request(method="GET", path=path, timeout=10.0))).body)["metadata"]
    event = {
        "metadata": {"name": "train.1", "namespace": "ml"},
        "involvedObject": {"kind": "ResourceClaim", "namespace": "ml", "name": "train", "uid": about["uid"]},
        "reason": "Deallocated",
        "message": "no pod uses the claim",
        "type": "Normal",
    }
    await server.create("Event", event, "ml")
    async with running(server) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        _, text = await browser.answer(f"/api/object?ns={namespace}&kind=claim&namespace=ml&name=train", token)
        events = json.loads(text).get("events")
        assert (events and [reason for _, reason, _, _ in events]) == reasons


async def failed_preparation(server, namespace, name):
    """Return the Event of a kubelet that could not prepare the devices of a pod."""
    path = PODS.path(namespace, name)
    found = json.loads((await server.server.handle(Request(method="GET", path=path, timeout=10.0))).body)
    return {
        "metadata": {"name": f"{name}.1", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name, "uid": found["metadata"]["uid"]},
        "reason": "FailedPrepareDynamicResources",
        "message": NOT_REGISTERED,
        "type": "Warning",
        "source": {"component": "kubelet"},
        "count": 12,
        "firstTimestamp": "2026-11-20T11:00:00Z",
        "lastTimestamp": "2026-11-20T11:50:00Z",
    }


async def test_a_tenant_does_not_see_which_kinds_of_workloads_another_namespace_uses():
    server = await two_tenants()
    server.failing = {"secret.example"}  # discovery of the group
    hidden = claim("hidden", "other", "n1/gpu-2")
    hidden["metadata"]["annotations"] = {RESERVED_FOR: "trials.secret.example/t"}
    await server.create("ResourceClaim", hidden, "other")
    async with running(server) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        for path in ("/api/rows?view=overview&ns=ml", "/api/object?ns=ml&kind=claim&namespace=ml&name=train"):
            _, text = await browser.answer(path, "ml-token")
            assert "trials" not in text, path
        claims = {"ml/train", "other/secret", "other/secret-too", "other/hidden"}
        await browser.view("claims", "operator-token", wanted=claims)
        _, text = await browser.answer("/api/rows?view=overview", "operator-token")
        assert "gap/trials.secret.example" in text


async def test_a_pod_with_a_missing_claim_is_not_told_of_the_same_name_in_another_namespace():
    server = await two_tenants()
    await server.create("Pod", tenant_pod("lost", "ml", "secret", why="0/1 nodes are available"), "ml")
    async with running(server) as browser:
        await browser.view("problems", "ml-token", "ml", wanted={"ClaimMissing/pod ml/lost/1"})
        paths = ("/api/rows?view=problems&ns=ml", "/api/object?ns=ml&kind=pod&namespace=ml&name=lost")
        for path in paths:
            _, text = await browser.answer(path, "ml-token")
            assert "ClaimMissing" in text
            assert "other/" not in text, path
        _, text = await browser.answer(paths[1].replace("ns=ml&", ""), "operator-token")
        assert "other/secret" in text


@pytest.mark.parametrize("view", ["devices", "nodes"])
async def test_a_view_without_rights_is_absent_and_names_the_permission(view):
    async with running(await two_tenants()) as browser:
        status, text = await browser.answer(f"/api/rows?view={view}&ns=ml", "ml-token")
        assert (status, text.startswith("no permission to list and watch ")) == (403, True)
        status, again = await browser.answer(f"/api/events?views=claims,{view}&ns=ml", "ml-token")
        assert (status, again) == (403, text)
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        _, overview = await browser.answer("/api/rows?view=overview&ns=ml", "ml-token")
        rows = {row[0]: row[3] for row in json.loads(overview)["rows"]}
        assert rows[f"denied/{view}"] == text
        assert not [key for key in rows if key.startswith(f"{view}/") or key == "cluster/nodes"]


async def test_a_kind_that_is_not_served_is_no_missing_permission():
    async with running(await two_tenants()) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        await browser.view("reservations", "ml-token", "ml", wanted=set())
        _, overview = await browser.answer("/api/rows?view=overview&ns=ml", "ml-token")
        keys = {row[0] for row in json.loads(overview)["rows"]}
        assert {"absent/reservations", "absent/migrations"} <= keys
        assert not [
            key for key in keys if key.startswith(("denied/res", "denied/mig", "gap/reservations", "gap/podmig"))
        ]


async def test_a_tenant_has_no_usage_by_node():
    async with running(await two_tenants()) as browser:
        wanted = {"namespace/ml", "workload/ml/jobs.batch/train-job", "class/gpu.example.com"}
        await browser.view("usage", "ml-token", "ml", wanted=wanted)


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [
        pytest.param("claim", "other", "secret", id="claim-of-another-namespace"),
        pytest.param("claim", "other", "missing", id="claim-that-does-not-exist-there"),
        pytest.param("pod", "other", "secret-pod", id="pod-of-another-namespace"),
        pytest.param("workload", "other", "jobs.batch/secret-job", id="workload-of-another-namespace"),
        pytest.param("node", "", "n1", id="node"),
        pytest.param("device", "", "gpu.example.com/n1/gpu-1", id="device"),
    ],
)
async def test_a_tenant_is_refused_before_an_object_is_looked_up(kind, namespace, name):
    async with running(await two_tenants()) as browser:
        path = f"/api/object?ns=ml&kind={kind}&namespace={namespace}&name={name}"
        status, text = await browser.answer(path, "ml-token")
        assert status == 403
        assert name not in text


async def test_without_the_right_to_list_pods_no_pod_is_shown():
    async with running(await two_tenants()) as browser:
        rows = await browser.view("claims", "claims-token", "ml", wanted={"ml/train"})
        assert rows["ml/train"]["PODS"] == "0"
        status, _ = await browser.answer("/api/object?ns=ml&kind=pod&namespace=ml&name=train-pod", "claims-token")
        assert status == 403
        _, text = await browser.answer("/api/rows?view=overview&ns=ml", "claims-token")
        assert "train-pod" not in text
        assert "gap/pods" in text


@pytest.mark.parametrize(
    ("token", "namespace", "status", "text"),
    [
        pytest.param("", "ml", 401, "not valid", id="no-token"),
        pytest.param("wrong", "ml", 401, "not valid", id="wrong-token"),
        pytest.param("x" * 20_000, "ml", 400, "", id="a-token-without-end"),
        pytest.param("ml-token", "", 403, "sign in with a namespace", id="tenant-without-a-namespace"),
        pytest.param("ml-token", "other", 403, "namespace other", id="tenant-in-another-namespace"),
        pytest.param("ml-token", "missing", 403, "namespace missing", id="a-namespace-that-does-not-exist"),
        pytest.param("ml-token", "../ml", 400, "not the name", id="no-name-of-a-namespace"),
        pytest.param("nobody-token", "ml", 403, "may not list", id="user-without-rights"),
    ],
)
async def test_others_are_refused(token, namespace, status, text):
    paths = ("session?", "rows?view=claims&", "events?views=claims&", "object?kind=claim&namespace=ml&name=train&")
    async with running(await two_tenants()) as browser:
        for path in paths:
            found = await browser.answer(f"/api/{path}ns={namespace}", token)
            assert found[0] == status
            assert text in found[1]
            assert "train" not in found[1]
        assert len(browser.application.feeds) == 1, "the feed of administrators, which is always there"


@pytest.mark.parametrize("token", ["", "stranger"], ids=["no-token", "unknown-token"])
@pytest.mark.parametrize(
    "path",
    [
        "/api/session?ns={}",
        "/api/rows?view=claims&ns={}",
        "/api/rows?view=nothing&ns={}",
        "/api/events?views=claims&ns={}",
        "/api/object?kind=pod&namespace={0}&name=train-pod&ns={0}",
        "/api/object?kind=nothing&ns={}",
    ],
)
async def test_without_a_valid_token_all_namespaces_and_objects_are_answered_alike(path, token):
    server = await two_tenants()
    async with running(server) as browser:
        answers = {await browser.answer(path.format(namespace), token) for namespace in ("ml", "absent")}
        assert answers == {(401, "the token is not valid for this page, or has expired")}
    assert server.reviews == []


async def test_a_token_of_another_audience_is_refused():
    server = await two_tenants()
    server.audiences = ["https://kubernetes.default.svc"]
    async with running(server) as browser:
        assert (await browser.answer("/api/session", "operator-token"))[0] == 401


@pytest.mark.parametrize("review", ["tokenreviews", "subjectaccessreviews"])
async def test_a_review_that_fails_shows_nothing(review):
    server = await two_tenants()
    async with running(server) as browser:
        server.failing = {review}
        async with browser.get("/api/rows?view=claims", "operator-token") as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "5")
            assert "train" not in await response.text()
        server.failing = set()
        assert (await browser.answer("/api/session", "operator-token"))[0] == 200


@pytest.mark.parametrize("body", [b"%b", b'{"kind": "Status", "message": "spec.token: Invalid value: %b"}'])
async def test_a_token_that_the_api_server_quotes_is_not_logged(body, caplog):
    server = await two_tenants()
    handle = server.handle

    async def quoting(request):
        if not request.path.endswith("/tokenreviews"):
            return await handle(request)
        return Response(422, {}, body % json.loads(request.body)["spec"]["token"].encode())

    server.handle = quoting
    async with running(server) as browser:
        status, text = await browser.answer("/api/session", "operator-token")
        assert (status, "operator-token" in text) == (503, False)
    assert "a review failed" in caplog.text
    assert "operator-token" not in caplog.text


async def test_a_user_with_too_many_requests_delays_nobody_else(monkeypatch):
    monkeypatch.setattr(team_gate, "USER_REQUESTS_MAX", 1)
    server = await two_tenants()
    handle, held, waiting = server.handle, asyncio.Event(), asyncio.Semaphore(0)

    async def slow(request):
        if request.path.endswith("/subjectaccessreviews") and b'"nobody"' in request.body:
            waiting.release()
            await held.wait()
        return await handle(request)

    server.handle = slow
    async with running(server) as browser:
        asked = asyncio.ensure_future(browser.answer("/api/session?ns=ml", "nobody-token"))
        await waiting.acquire()
        refused = await browser.answer("/api/session?ns=other", "nobody-token")
        assert refused == (503, "too many requests at once")
        assert (await browser.answer("/api/session?ns=ml", "ml-token"))[0] == 200
        held.set()
        assert (await asked)[0] == 403


async def test_reviews_name_the_user_with_uid_groups_and_extra():
    server = await two_tenants()
    async with running(server) as browser:
        assert (await browser.answer("/api/session?ns=ml", "ml-token")) == (200, '{"user":"ml-user","namespace":"ml"}')
    assert {(each["user"], each["uid"], *each["groups"]) for each in server.reviews} == {
        ("ml-user", "uid-ml-user", "team")
    }
    assert all(each["extra"] == {"scopes": ["a", "b"]} for each in server.reviews)
    first = server.reviews[0]["resourceAttributes"]
    assert (first["verb"], first["resource"], first["namespace"]) == ("list", "resourceclaims", "")
    assert {each["resourceAttributes"]["namespace"] for each in server.reviews} == {"", "ml", "koordinator-system"}


async def test_a_stream_shows_changes_of_the_namespace_only():
    server = await two_tenants()
    async with running(server) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        async with await browser.stream("claims", "ml-token", "ml") as stream:
            await server.create("ResourceClaim", claim("secret-three", "other"), "other")
            await browser.view(
                "claims",
                "operator-token",
                wanted={"ml/train", "other/secret", "other/secret-too", "other/secret-three"},
            )
            await server.create("ResourceClaim", claim("next", "ml"), "ml")
            event = await read_event(stream)
        assert [row[0] for patch in json.loads(event["data"]) for row in patch["set"]] == ["ml/next"]


async def test_a_user_who_loses_a_right_is_cut_off(monkeypatch):
    monkeypatch.setattr(page_server, "REVIEW_INTERVAL", 0.02)
    monkeypatch.setattr("dra.cli.page.review_cache.ALLOW_SECONDS", 0.0)
    server = await two_tenants()
    async with running(server) as browser:
        rows = await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        assert rows
        async with await browser.stream("claims", "ml-token", "ml") as stream:
            server.users["ml-token"][1].discard(("ml", "resourceclaims"))
            async with asyncio.timeout(30):
                assert (await read_event(stream))["event"] == "reset"
                assert await stream.content.read() == b""
        assert (await browser.answer("/api/rows?view=claims&ns=ml", "ml-token"))[0] == 403


async def test_a_user_who_gains_a_right_gets_other_rows(monkeypatch):
    monkeypatch.setattr(page_server, "REVIEW_INTERVAL", 0.02)
    monkeypatch.setattr("dra.cli.page.review_cache.ALLOW_SECONDS", 0.0)
    monkeypatch.setattr("dra.cli.page.review_cache.DENY_SECONDS", 0.0)
    server = await two_tenants()
    async with running(server) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        async with await browser.stream("claims", "ml-token", "ml") as stream:
            server.users["ml-token"][1].update({("", "resourceclaims"), ("", "pods")})
            async with asyncio.timeout(30):
                assert (await read_event(stream))["event"] == "reset"
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train", "other/secret", "other/secret-too"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Host": "evil.example"}, 421, id="a-name-that-was-bound-to-the-address"),
        pytest.param({"Host": "page.example.com"}, 200, id="an-allowed-host"),
        pytest.param({"Host": "page.example.com:8443"}, 200, id="an-allowed-host-at-any-port"),
        pytest.param({"Host": "pinned.example.com:444"}, 200, id="an-allowed-host-at-its-port"),
        pytest.param({"Host": "pinned.example.com"}, 421, id="an-allowed-host-at-another-port"),
        pytest.param({"Host": "localhost:9999"}, 200, id="port-forward"),
        pytest.param({"Host": "page.example.com", "Origin": "https://page.example.com"}, 200, id="our-origin"),
        pytest.param({"Host": "page.example.com", "Origin": "https://evil.example"}, 403, id="another-origin"),
        pytest.param({"Host": "page.example.com", "Origin": "null"}, 403, id="a-sandboxed-frame"),
        pytest.param({"Host": "page.example.com", "Sec-Fetch-Site": "cross-site"}, 403, id="cross-site"),
    ],
)
async def test_hosts_and_sites(headers, status):
    hosts = ("Page.example.com", "pinned.example.com:444")
    async with (
        running(await two_tenants(), allowed_hosts=hosts) as browser,
        browser.get("/api/session", "operator-token", **headers) as response,
    ):
        assert response.status == status
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
        assert "Strict-Transport-Security" not in response.headers
        assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_nothing_can_be_written(method):
    async with running(await two_tenants()) as browser:
        for path in ("/", "/api/session", "/api/rows", "/api/object", "/api/events"):
            url = f"{browser.application.address}{path}"
            async with browser.session.request(
                method, url, headers={"Authorization": "Bearer operator-token"}
            ) as response:
                assert response.status == 405


async def test_a_user_has_six_streams_and_others_still_have_theirs():
    async with running(await two_tenants()) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        opened = [await browser.get("/api/events?views=claims&ns=ml", "ml-token").__aenter__() for _ in range(6)]
        async with browser.get("/api/events?views=claims&ns=ml", "ml-token") as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (503, "30")
        async with browser.get("/api/events?views=claims", "operator-token") as other:
            assert other.status == 200
        opened.pop().close()
        async with asyncio.timeout(30):
            while True:
                async with browser.get("/api/events?views=claims&ns=ml", "ml-token") as again:
                    if again.status == 200:
                        break
                await asyncio.sleep(0.01)
        for each in opened:
            each.close()


async def test_all_users_together_have_a_limited_number_of_streams(monkeypatch):
    monkeypatch.setattr(team_gate, "STREAMS_MAX", 2)
    async with running(await two_tenants()) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        opened = [await browser.get("/api/events?views=claims&ns=ml", "ml-token").__aenter__() for _ in range(2)]
        async with browser.get("/api/events?views=claims", "operator-token") as refused:
            assert refused.status == 503
            assert "too many open tabs" in await refused.text()
        for each in opened:
            each.close()


async def test_the_users_of_one_namespace_leave_streams_to_others(monkeypatch):
    monkeypatch.setattr(team_gate, "NAMESPACE_STREAMS_MAX", 2)
    async with running(await two_tenants()) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        tokens = ("ml-token", "claims-token")
        opened = [await browser.get("/api/events?views=claims&ns=ml", token).__aenter__() for token in tokens]
        async with browser.get("/api/events?views=claims&ns=ml", "ml-token") as refused:
            assert (refused.status, await refused.text()) == (
                503,
                "namespace ml: its users have too many open tabs; close some",
            )
        for token, namespace in (("other-token", "other"), ("operator-token", "")):
            async with browser.get(f"/api/events?views=claims&ns={namespace}", token) as other:
                assert other.status == 200
        for each in opened:
            each.close()


async def test_streams_are_kept_for_users_of_all_namespaces(monkeypatch):
    monkeypatch.setattr(team_gate, "STREAMS_MAX", 8)
    async with running(await two_tenants()) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        opened = [await browser.get("/api/events?views=claims&ns=ml", "ml-token").__aenter__() for _ in range(6)]
        opened.append(await browser.get("/api/events?views=claims&ns=other", "other-token").__aenter__())
        async with browser.get("/api/events?views=claims&ns=other", "other-token") as refused:
            assert refused.status == 503
        async with browser.get("/api/events?views=claims", "operator-token") as other:
            assert other.status == 200
        for each in opened:
            each.close()


async def test_strangers_cannot_keep_connections_busy(monkeypatch):
    monkeypatch.setattr(team_gate, "FIRST_REVIEWS_MAX", 4)
    server = SlowReviews()
    await server.create("Namespace", {"metadata": {"name": "ml"}})
    async with running(server) as browser, asyncio.TaskGroup() as group:
        assert (await browser.answer("/api/session?ns=ml", "ml-token"))[0] == 200
        asked = [group.create_task(browser.answer("/api/session", f"stranger-{number}")) for number in range(9)]
        async with asyncio.timeout(30):
            while server.waiting < 4 or sum(each.done() for each in asked) < 5:  # noqa: ASYNC110 - states of two parts
                await asyncio.sleep(0.01)
        refused = {each.result() for each in asked if each.done()}
        assert refused == {(503, "too many users sign in at once")}
        assert (await browser.answer("/api/session?ns=ml", "ml-token"))[0] == 200, "a known token needs no place"
        server.over.set()
        await asyncio.gather(*asked)
        assert (await browser.answer("/api/session?ns=ml", "ml-token"))[0] == 200
        assert (await browser.answer("/api/session", "stranger-again"))[0] == 401, "all places are free again"


async def test_the_log_has_neither_tokens_nor_queries(caplog):
    caplog.set_level(logging.DEBUG)
    server = await two_tenants()
    async with running(server) as browser:
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        await browser.answer("/api/rows?view=claims&ns=other", "ml-token")
        await browser.answer("/api/rows?view=claims&ns=ml", "wrong-token")
        server.failing = {"tokenreviews"}
        await browser.answer("/api/rows?view=claims&ns=ml", "other-token")
    lines = [each.getMessage() for each in caplog.records if each.name.startswith(("dra", "controller", "aiohttp"))]
    assert any("refused" in each for each in lines)
    assert not [each for each in lines if "-token" in each or "view=" in each]


@pytest.mark.parametrize("kind", ["pods", "nodes", "resourceslices", "resourceclaims", "deviceclasses", "jobs"])
async def test_a_right_that_the_page_lacks_is_a_gap_and_a_line_of_the_log(kind, caplog):
    server = await two_tenants()
    server.refused_kinds = {kind}
    async with running(server) as browser:
        wanted = set() if kind == "resourceclaims" else {"ml/train", "other/secret", "other/secret-too"}
        await browser.view("claims", "operator-token", wanted=wanted)
        _, text = await browser.answer("/api/rows?view=overview", "operator-token")
        gaps = {row[2].partition(".")[0]: row[3] for row in json.loads(text)["rows"] if row[1] == "gap"}
        assert gaps[kind] == "the page cannot read this kind; its log says why"
        assert "system:serviceaccount" not in text
    lines = [each.getMessage() for each in caplog.records]
    assert any(each.startswith(kind) and "cannot be read" in each for each in lines)


async def test_the_memory_of_log_lines_is_bounded(monkeypatch, caplog):
    monkeypatch.setattr(shared_cluster, "TOLD_MAX", 2)
    async with running(await two_tenants()) as browser:
        for kind in ("a", "a", "b", "c", "d", "d"):
            browser.application.cluster._tell(kind, "no")
        assert len(browser.application.cluster._told) <= 2
    assert [each.getMessage()[0] for each in caplog.records if "cannot be read: no" in each.getMessage()] == list(
        "abcd"
    )


async def test_a_kind_that_becomes_readable_appears_without_a_restart(monkeypatch):
    monkeypatch.setattr(shared_cluster, "RETRY_INTERVAL", 0.02)
    server = await two_tenants()
    server.refused_kinds = {"nodes"}
    async with running(server) as browser:
        await browser.view("claims", "operator-token", wanted={"ml/train", "other/secret", "other/secret-too"})
        async with await browser.stream("claims", "operator-token") as stream:
            server.refused_kinds = set()
            async with asyncio.timeout(30):
                assert (await read_event(stream))["event"] == "reset"
        assert (await browser.view("nodes", "operator-token", wanted={"n1"}))["n1"]["STATE"] == "Ready"


async def test_probes_tell_when_the_page_is_ready():
    server = await two_tenants()
    async with running(server) as browser:
        address = browser.application.endpoints.addresses["probes"]
        async with browser.session.get(f"http://{address}/readyz") as response:
            assert (response.status, await response.text()) == (200, "ok\n")
        address = browser.application.endpoints.addresses["metrics"]
        await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        async with browser.session.get(f"http://{address}/metrics") as response:
            text = await response.text()
        assert "dra_reserve_page_scopes 2.0" in text, "the scope of the tenant, and that of administrators"
        assert 'dra_reserve_page_responses_total{code="200"}' in text


async def test_a_starting_pod_is_on_no_silent_node_for_a_user_who_sees_no_nodes():
    server = await two_tenants()
    starting = tenant_pod("starting", "ml", "train", on="n1")
    starting["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    await server.create("Pod", starting, "ml")
    async with running(server) as browser:
        await browser.view("problems", "ml-token", "ml", wanted={"NotListed/pod ml/starting/1"})
