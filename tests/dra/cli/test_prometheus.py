"""The questions to a Prometheus over HTTP, and servers that answer otherwise."""

import asyncio
import json
import ssl

import pytest

from dra.cli import prometheus
from dra.cli.prometheus import PrometheusAddress, PrometheusError, ask_history, ask_use
from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import HELD_METRIC, USED_METRIC
from dra.engine.device_usage.promql import NAMES_BYTES_MAX
from dra.engine.device_usage.timelines import SPANS
from tests.controller.extender.authority import SERVER, Authority
from tests.dra.cli.recorded_prometheus import DAY, NOW, TEAMS, RecordedPrometheus, serving
from tests.violations import for_each_case

SLEEP = UsageGroup("idlers", "jobs.batch/sleep", "gpus")


def asked(url, *, namespaces=None, labels=None, **files):
    address = PrometheusAddress.parse(url, **files)
    return asyncio.run(ask_history(address, since=DAY, namespaces=namespaces, labels=labels or {}))


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


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign(SERVER, usage="serverAuth"))
    return context


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def test_a_server_behind_its_own_authority_gets_the_token_as_it_is_now(authority, tls, token_file):
    server = RecordedPrometheus(TEAMS)
    with serving(server, context=tls) as url:
        address = PrometheusAddress.parse(url, ca=authority.certificate, token_file=token_file)
        for token in ("first", "second"):
            token_file.write_text(f"{token}\n")
            history = asyncio.run(ask_history(address, since=DAY, namespaces=None, labels={}))
            assert history.now == NOW
            assert {headers["Authorization"] for headers in server.sent_headers} == {f"Bearer {token}"}
            server.sent_headers.clear()
    assert "second" not in repr(address) + str(address)


def test_without_its_authority_a_server_is_refused_before_it_gets_the_token(tls, token_file):
    server = RecordedPrometheus(TEAMS)
    with serving(server, context=tls) as url, pytest.raises(PrometheusError, match="certificate verify failed"):
        asked(url, token_file=token_file)
    assert server.sent_headers == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_gets_the_token(authority, tls, token_file, status):
    elsewhere = RecordedPrometheus(TEAMS)
    with serving(elsewhere) as other:
        server = RecordedPrometheus({}, status=status, body="", headers={"Location": f"{other}/api/v1/query"})
        with serving(server, context=tls) as url, pytest.raises(PrometheusError, match="it redirects to"):
            asked(url, ca=authority.certificate, token_file=token_file)
    assert (len(server.sent_headers), elsewhere.sent_headers) == (1, [])


def test_over_plain_http_a_token_goes_to_this_machine_alone(token_file):
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        asked(url, token_file=token_file)
    assert {headers["Authorization"] for headers in server.sent_headers} == {"Bearer first"}
    for host in ("prometheus.monitoring:9090", "10.0.0.1", "[fd00::1]:9090", "localhost.example.com", "0x7f.1"):
        with pytest.raises(PrometheusError, match="a token is sent over https:// alone"):
            PrometheusAddress.parse(f"http://{host}", token_file=token_file)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"", "must have one token, on one line$", id="empty"),
        pytest.param(b"secret\r\nX-Scope: all", "must have one token, on one line$", id="a-second-header"),
        pytest.param(b"secret\xff", "it is no text$", id="no-text"),
        pytest.param(None, "No such file or directory$", id="gone"),
    ],
)
def test_what_is_no_token_is_told_without_its_content(token_file, content, text):
    token_file.unlink()
    if content is not None:
        token_file.write_bytes(content)
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url, pytest.raises(PrometheusError, match=text) as error:
        asked(url, token_file=token_file)
    assert str(error.value).startswith(f"Prometheus {url}: token file {token_file}: ")
    assert "secret" not in str(error.value)
    assert server.sent_headers == []


def test_what_is_no_ca_names_the_file(token_file):
    with pytest.raises(PrometheusError, match=rf"^Prometheus https://127.0.0.1:1: CA {token_file}: "):
        asked("https://127.0.0.1:1", ca=token_file)


@pytest.mark.parametrize(
    ("url", "files", "text"),
    [
        pytest.param("http://127.0.0.1", ["ca"], "a CA needs an address that begins", id="ca-without-tls"),
        pytest.param("https://me:pw@h", ["token_file"], "without user and password", id="token-and-password"),
    ],
)
def test_files_that_do_not_suit_the_address_are_refused(token_file, url, files, text):
    with pytest.raises(PrometheusError, match=text) as error:
        PrometheusAddress.parse(url, **dict.fromkeys(files, token_file))
    assert "pw" not in str(error.value)


def test_a_namespace_is_asked_for_and_others_are_dropped():
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        history = asked(url, namespaces={"workers"}, labels={"cluster": "eu-1"})
    assert {group.namespace for group in history.groups} == {"workers"}
    assert all(
        'cluster="eu-1",claim_namespace="workers"' in query["query"]
        for _, query in server.asked
        if query["query"] != "time()"
    )


def test_many_namespaces_are_asked_for_in_parts():
    long = {name * NAMES_BYTES_MAX for name in "abc"}
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        assert asked(url, namespaces=long | {"workers"}).groups.keys() == {
            UsageGroup("workers", "jobs.batch/train", "gpus"),
            UsageGroup("workers", "<none>", "gpus"),
        }
    texts = [query["query"] for _, query in server.asked if query["query"] != "time()"]
    assert len(texts) == 4 * 6
    assert max(map(len, texts)) < 2 * NAMES_BYTES_MAX + 1_000


def test_of_too_many_namespaces_all_are_asked_for_and_others_dropped(monkeypatch):
    monkeypatch.setattr(prometheus, "PARTS_MAX", 1)
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        told = asked(url, namespaces={"a" * NAMES_BYTES_MAX, "workers"})
    assert {group.namespace for group in told.groups} == {"workers"}
    assert not [query for _, query in server.asked if "claim_namespace=" in query["query"]]


def test_no_namespace_asks_for_nothing():
    server = RecordedPrometheus(TEAMS)
    with serving(server) as url:
        assert asked(url, namespaces=set()).groups == {}
    assert [query["query"] for _, query in server.asked] == ["time()"]


def line(value, namespace):
    return {"metric": {"claim_namespace": namespace}, "values": [[NOW, str(value)]]}


LINES = {
    HELD_METRIC: [line(8, "idlers"), line(4, "workers"), line(9, "secret")],
    USED_METRIC: [line(2, "idlers"), line(4, "workers")],
}


def used_over(url, *, namespaces=None):
    address, day = PrometheusAddress.parse(url), SPANS["24h"]
    return asyncio.run(ask_use(address, by="namespace", span=day, namespaces=namespaces, labels={}))


def test_the_use_over_time_has_a_line_for_each_row():
    server = RecordedPrometheus(TEAMS, lines=LINES)
    with serving(server) as url:
        use = used_over(url)
    assert [(row.name, row.line.held[-1], row.line.used[-1]) for row in use.rows] == [
        ("idlers", 8.0, 2.0),
        ("workers", 4.0, 4.0),
    ]
    (query, _) = [query for path, query in server.asked if path.endswith("/query_range")]
    assert (float(query["start"]), query["end"], query["step"]) == (NOW - DAY + 900, str(NOW), "900")


def test_lines_of_other_namespaces_are_dropped():
    server = RecordedPrometheus(TEAMS, lines=LINES)
    with serving(server) as url:
        assert [row.name for row in used_over(url, namespaces={"workers"}).rows] == ["workers"]
    ranges = [query["query"] for path, query in server.asked if path.endswith("/query_range")]
    assert all('{claim_namespace="workers"}' in text for text in ranges)


@for_each_case(
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
        pytest.param(
            {"body": json.dumps({"status": "success", "data": {"result": [1, "x"]}})}, "another form", id="no-time"
        ),
    ]
)
def test_what_is_no_answer_names_the_server(server, text):
    with serving(RecordedPrometheus({}, **server)) as url, pytest.raises(PrometheusError, match=text) as error:
        asked(url)
    assert str(error.value).startswith(f"Prometheus {url}: ")


def test_an_endless_answer_is_cut():
    with serving(RecordedPrometheus({}, body="x" * (5 << 20))) as url, pytest.raises(PrometheusError) as error:
        asked(url)
    assert str(error.value).startswith(f"Prometheus {url}: ")
    assert str(error.value).endswith("longer than 4 MiB; use a shorter time")


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
