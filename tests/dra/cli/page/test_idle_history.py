"""The view "Idle" of the page in a cluster: a user has the history of the namespaces whose claims the user may list."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote

import pytest

from dra.api.page_configuration import PagePrometheus
from dra.cli.page import use_sources
from dra.cli.page.access import HEADERS
from dra.cli.prometheus import PrometheusError
from dra.engine.device_usage.history import HELD_METRIC, USED_METRIC, Query
from tests.dra.cli.page.team_cluster import running, two_tenants
from tests.dra.cli.recorded_prometheus import NOW, RecordedPrometheus, series, serving

HISTORY = {
    Query.HELD: [
        series(8, "ml", "jobs.batch/keep", "gpus"),
        series(4, "other", "jobs.batch/secret-job", "secret-class"),
    ],
    Query.USED: [
        series(0, "ml", "jobs.batch/keep", "gpus"),
        series(4, "other", "jobs.batch/secret-job", "secret-class"),
    ],
    Query.HELD_HOURS: [series(192, "ml", "jobs.batch/keep", "gpus"), series(7, "<other>", "<other>", "<other>")],
}
LINES = {
    metric: [
        {"metric": {"claim_namespace": name, "workload": "jobs.batch/secret-job"}, "values": [[NOW, "4"]]}
        for name in ("ml", "other")
    ]
    for metric in (HELD_METRIC, USED_METRIC)
}
FOREIGN = ("secret", "other", "gpu-1", "127.0.0.1")
"""Texts that no answer to a user of namespace ml may have."""


@pytest.fixture
def history():
    """A Prometheus that answers about all namespaces, whatever it is asked; with its address."""
    server = RecordedPrometheus(HISTORY, lines=LINES)
    with serving(server) as url:
        yield server, PagePrometheus(url=url, labels={"cluster": "eu"})


async def test_the_page_sends_the_token_that_its_configuration_names(history, tmp_path):
    server, named = history
    token_file = tmp_path / "token"
    token_file.write_text("letter")
    configured = named.model_copy(update={"token_file": str(token_file)})
    async with running(await two_tenants(), prometheus=configured) as browser:
        assert await names(browser, "operator-token") == {"ml", "other", "<other>"}
    assert {headers["Authorization"] for headers in server.sent_headers} == {"Bearer letter"}


async def names(browser, token, **query):
    path = "/api/idle?" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
    status, text = await browser.answer(path, token)
    assert status == 200, text
    tree = json.loads(text)
    return {row[2][2] for row in rows_of(tree)}


def rows_of(tree):
    if not isinstance(tree, list):
        return []
    body = [row for row in tree[2:] if isinstance(row, list) and row[0] == "tr"] if tree[0] == "tbody" else []
    return body + [row for child in tree[2:] for row in rows_of(child)]


async def test_an_administrator_has_the_history_of_all_namespaces(history):
    async with running(await two_tenants(), prometheus=history[1]) as browser:
        assert await names(browser, "operator-token") == {"ml", "other", "<other>"}
        assert "other/jobs.batch/secret-job" in await names(browser, "operator-token", by="workload", over="7d")


@pytest.mark.parametrize("by", ["namespace", "workload", "class"])
@pytest.mark.parametrize("over", ["24h", "7d"])
async def test_a_tenant_has_its_own_history_and_no_byte_of_another(history, by, over):
    server, named = history
    async with running(await two_tenants(), prometheus=named) as browser:
        status, text = await browser.answer(f"/api/idle?ns=ml&by={by}&over={over}", "ml-token")
        assert status == 200
        assert len(rows_of(json.loads(text))) == 1
        assert not [word for word in FOREIGN if word in text]
    asked = [query["query"] for _, query in server.asked if query["query"] != "time()"]
    assert all('cluster="eu",claim_namespace="ml"' in query for query in asked)


ATTACKS = [
    pytest.param({"ns": "other"}, 403, id="another-namespace"),
    pytest.param({"ns": "ml|other"}, 400, id="a-pattern-of-two"),
    pytest.param({"ns": ".*"}, 400, id="a-pattern-of-all"),
    pytest.param({"ns": 'ml"} or {claim_namespace=~".*'}, 400, id="a-quote"),
    pytest.param({"ns": "ml\\"}, 400, id="a-backslash"),
    pytest.param({"ns": "ml\n"}, 400, id="a-line"),
    pytest.param({"ns": ""}, 403, id="no-namespace"),
    pytest.param({"ns": "ml", "by": "claim_namespace"}, 400, id="a-label-as-grouping"),
    pytest.param({"ns": "ml", "by": 'namespace"}'}, 400, id="a-quote-as-grouping"),
    pytest.param({"ns": "ml", "over": "90d"}, 400, id="a-long-time"),
    pytest.param({"ns": "ml", "over": "24h]) or vector(1"}, 400, id="an-expression-as-time"),
]


@pytest.mark.parametrize(("query", "status"), ATTACKS)
async def test_a_tenant_cannot_ask_for_anything_else(history, query, status):
    server, named = history
    async with running(await two_tenants(), prometheus=named) as browser:
        path = "/api/idle?" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
        async with browser.get(path, "ml-token") as response:
            assert response.status == status
            assert {name: response.headers[name] for name in HEADERS} == HEADERS
            assert "secret" not in await response.text()
    assert server.asked == []


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("&ns=other", id="a-second-namespace"),
        pytest.param("&namespace=other&claim_namespace=other", id="other-parameters"),
        pytest.param("&url=http://127.0.0.1:1/&prometheus=http://127.0.0.1:1/&query=up", id="an-address"),
    ],
)
async def test_what_else_a_tenant_sends_changes_nothing(history, more):
    server, named = history
    async with running(await two_tenants(), prometheus=named) as browser:
        assert await names(browser, "ml-token", ns="ml") == {"ml"}
        _, text = await browser.answer(f"/api/idle?ns=ml{more}", "ml-token")
        assert len(rows_of(json.loads(text))) == 1
    assert {path for path, _ in server.asked} == {"/api/v1/query", "/api/v1/query_range"}
    assert len(server.sent_headers) == 9, "one question: the second was answered from the first"


@pytest.mark.parametrize("token", ["", "nobody-token", "not-a-token"])
async def test_who_may_list_no_claims_has_no_history(history, token):
    server, named = history
    async with running(await two_tenants(), prometheus=named) as browser:
        status, text = await browser.answer("/api/idle?ns=ml", token)
        assert status in {401, 403}
        assert "ml</" not in text
    assert server.asked == []


async def test_a_right_that_is_taken_away_ends_the_history_although_the_answer_is_kept(history, monkeypatch):
    monkeypatch.setattr("dra.cli.page.review_cache.ALLOW_SECONDS", 0.0)
    tenants = await two_tenants()
    async with running(tenants, prometheus=history[1]) as browser:
        assert await names(browser, "ml-token", ns="ml") == {"ml"}
        tenants.users["ml-token"] = ("ml-user", set())
        status, _ = await browser.answer("/api/idle?ns=ml", "ml-token")
        assert status == 403


async def test_a_prometheus_that_fails_is_not_named_to_users(history, caplog):
    server, named = history
    server.status, server.body = 500, "<html>at 10.0.0.7</html>"
    async with running(await two_tenants(), prometheus=named) as browser:
        for token in ("ml-token", "operator-token"):
            status, text = await browser.answer("/api/idle?ns=ml", token)
            assert (status, "127.0.0.1" in text, "10.0.0.7" in text) == (503, False, False)
        claims = await browser.view("claims", "ml-token", "ml", wanted={"ml/train"})
        assert claims, "the other views do not depend on it"
    assert named.url in caplog.text


async def test_without_a_prometheus_each_user_has_what_the_page_has_seen(monkeypatch):
    monkeypatch.setattr(use_sources, "FIRST_LOOK_INTERVAL", 0.01)
    async with running(await two_tenants()) as browser:
        async with asyncio.timeout(20):
            while (await browser.answer("/api/idle", "operator-token"))[0] != 200:  # noqa: ASYNC110 - of a server
                await asyncio.sleep(0.01)
        assert await names(browser, "operator-token") == {"ml", "other"}
        status, text = await browser.answer("/api/idle?ns=ml&by=workload", "ml-token")
        assert (status, "ml/jobs.batch/train-job" in text, "page.prometheus.url" in text) == (200, True, True)
        assert not [word for word in FOREIGN if word in text]


@pytest.mark.parametrize(
    ("named", "text"),
    [
        pytest.param({"url": "file:///etc/passwd"}, "the URL is not of the form", id="no-server"),
        pytest.param({"url": "http://p:9090", "labels": {'a"}': "x"}}, "no name of a label", id="no-label"),
    ],
)
async def test_a_wrong_address_ends_the_start(named, text):
    with pytest.raises((PrometheusError, ValueError), match=text):
        async with running(await two_tenants(), prometheus=PagePrometheus(**named)):
            pass


def test_the_configuration_takes_no_credentials():
    with pytest.raises(ValueError, match="credentials do not belong here"):
        PagePrometheus(url="http://me:secret@prometheus:9090")
