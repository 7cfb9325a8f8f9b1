"""The questions to a Prometheus over HTTP, and servers that answer otherwise."""

import asyncio
import json

import pytest

from dra.cli.prometheus import PrometheusAddress, PrometheusError, ask_history
from dra.engine.device_usage.groups import UsageGroup
from tests.dra.cli.recorded_prometheus import DAY, NOW, TEAMS, RecordedPrometheus, serving

SLEEP = UsageGroup("idlers", "jobs.batch/sleep", "gpus")


def asked(url, *, namespace=None, labels=None):
    address = PrometheusAddress.parse(url)
    return asyncio.run(ask_history(address, since=DAY, namespace=namespace, labels=labels or {}))


def test_history_is_of_one_moment_of_the_server():
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        history = asked(url + "/prom/")
    assert history.now == NOW
    assert (history.groups[SLEEP].held_hours, history.groups[SLEEP].idle_since) == (192.0, NOW - 5 * 3600)
    assert {path for path, _ in server.asked} == {"/prom/api/v1/query"}
    assert [query.get("time") for _, query in server.asked] == [None, *[str(NOW)] * 6]


def test_only_the_credentials_of_the_url_are_sent():
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        asked(url)
        asked(url.replace("//", "//me:p%40ss@"))
    assert [headers.get("Authorization") for headers in server.sent_headers] == [None] * 7 + ["Basic bWU6cEBzcw=="] * 7


def test_a_namespace_is_asked_for_and_others_are_dropped():
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        history = asked(url, namespace="workers", labels={"cluster": "eu-1"})
    assert {group.namespace for group in history.groups} == {"workers"}
    assert all(
        'cluster="eu-1",claim_namespace="workers"' in query["query"]
        for _, query in server.asked
        if query["query"] != "time()"
    )


@pytest.mark.parametrize(
    ("server", "text"),
    [
        pytest.param(
            {"status": 422, "body": json.dumps({"status": "error", "error": "too many\x1b[2J samples"})},
            r"too many\\u001b\[2J samples$",
            id="its-own-error",
        ),
        pytest.param({"status": 404, "body": "<html>"}, "HTTP 404: .*is the path right", id="another-server"),
        pytest.param({"body": "<html>"}, "HTTP 200: .*is the path right", id="a-page"),
        pytest.param({"status": 401, "body": ""}, "https://USER:PASSWORD@HOST", id="credentials-are-lacking"),
        pytest.param(
            {"status": 302, "body": "", "headers": {"Location": "http://10.0.0.1/"}},
            "redirects to http://10.0.0.1/; name that",
            id="a-redirect-is-not-followed",
        ),
        pytest.param(
            {"body": json.dumps({"status": "success", "data": {"result": {"a": 1}}})}, "another form", id="another-form"
        ),
        pytest.param({"body": "x" * (5 << 20)}, "longer than 4 MiB", id="an-endless-answer"),
    ],
)
def test_what_is_no_answer_names_the_server(server, text):
    with serving(RecordedPrometheus({}, **server)) as url, pytest.raises(PrometheusError, match=text) as error:
        asked(url)
    assert str(error.value).startswith(f"Prometheus {url}: ")


def test_a_server_that_is_not_there_is_told_without_the_password():
    with pytest.raises(PrometheusError, match="cannot connect") as error:
        asked("http://me:secret@127.0.0.1:1")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("prometheus:9090", id="no-scheme"),
        pytest.param("file:///etc/passwd", id="a-file"),
        pytest.param("http://", id="no-host"),
        pytest.param("http://h:port", id="no-port"),
        pytest.param("http://h/?query=up", id="with-a-query"),
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(PrometheusError, match=r"^Prometheus: the URL"):
        PrometheusAddress.parse(url)
