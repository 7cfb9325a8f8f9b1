"""``kubectl dra usage --idle``: who holds what nobody uses."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from tests.dra.cli.recorded_prometheus import TEAMS, RecordedPrometheus, serving
from tests.dra.engine.diagnosis.cluster_states import claim, pod, snapshot
from tests.dra.engine.diagnosis.test_workloads import RESERVED

EVERYTHING = snapshot()


def run(arguments):
    return CliRunner().invoke(main, ["usage", "--idle", *arguments])


def table(output):
    return [line.split() for line in output.splitlines()]


@pytest.fixture
def asking(monkeypatch):
    """Run the command for a user who may list the claims of all namespaces, or of one."""

    def ask(arguments, *, limited_to=None):
        readable = msgspec.structs.replace(EVERYTHING, namespace=limited_to)
        monkeypatch.setattr(SnapshotSource, "read", lambda _self, _scope: readable)
        server = RecordedPrometheus(TEAMS)
        with serving(server) as url:
            done = run([*arguments, "--prometheus", url])
        assert done.exit_code == 0, done.output
        return done, server

    return ask


def test_those_who_hold_most_without_using_it_come_first(asking):
    done, _ = asking(["--by", "workload"])
    assert table(done.stdout) == [
        ["WORKLOAD", "HELD", "USED", "IDLE", "IDLE-SINCE", "HELD-HOURS", "USED-HOURS", "IDLE-HOURS", "USED%"],
        ["idlers/jobs.batch/sleep", "8", "2", "6", "5h", "192.0", "48.0", "144.0", "25%"],
        ["workers/<none>", "0", "0", "0", "12.0", "0.0", "12.0", "0%"],
        ["workers/jobs.batch/train", "4", "4", "0", "96.0", "96.0", "0.0", "100%"],
    ]


@pytest.mark.parametrize(
    ("by", "idle_hours"),
    [
        pytest.param("namespace", {"idlers": 144.0, "workers": 12.0}, id="namespace"),
        pytest.param("class", {"gpus": 156.0}, id="class"),
    ],
)
def test_groups_are_added_up(asking, by, idle_hours):
    items = json.loads(asking(["--by", by, "-o", "json"])[0].stdout)["items"]
    assert {item[by]: item["idleHours"] for item in items} == idle_hours
    assert items[0]["idleSince"] == "2026-11-18T06:06:40Z"


def test_since_days_is_a_length(asking):
    _, server = asking(["--since", "7d"])
    assert any("[604800s:60s]" in query["query"] for _, query in server.asked)


def test_a_tenant_sees_the_history_of_its_own_namespace_alone(asking):
    done, server = asking([], limited_to="workers")
    assert [row[0] for row in table(done.stdout)] == ["NAMESPACE", "workers"]
    assert "history of namespace workers alone" in done.stderr
    selected = [query["query"] for _, query in server.asked if query["query"] != "time()"]
    assert all('{claim_namespace="workers"}' in text for text in selected)


@pytest.mark.parametrize(
    "name",
    ['workers"} or {claim_namespace=~".*', "workers|idlers", ".*", 'x\\"} or vector(1) #', "<other>"],
    ids=["a-quote", "a-pattern", "any", "a-backslash", "the-rest-of-all"],
)
def test_a_name_of_a_namespace_selects_nothing_else(asking, name):
    done, _ = asking(["-n", name])
    first, second = done.stderr.splitlines()
    assert (done.stdout, first) == ("", f"No resources found in {name} namespace.")
    assert second.endswith("it must scrape the controller of dra-reserve")


def test_a_token_of_a_file_is_sent(asking, tmp_path):
    token_file = tmp_path / "token"
    token_file.write_text("letter")
    _, server = asking(["--prometheus-token-file", str(token_file)])
    assert {headers["Authorization"] for headers in server.sent_headers} == {"Bearer letter"}


@pytest.fixture
def bundled(tmp_path):
    """Two claims, one of which no pod uses."""
    found = snapshot(
        claim("used", "n1/gpu-0", **RESERVED),
        claim("held", "n2/gpu-0", namespace="other"),
        pods=(pod("a", "used", on="n1", phase="Running", started=True),),
    )
    write_bundle(found, tmp_path / "b.tgz")
    return ["--from", str(tmp_path / "b.tgz")]


def test_without_a_prometheus_there_is_the_present_alone(bundled):
    done = run(bundled)
    assert table(done.stdout) == [
        ["NAMESPACE", "HELD", "USED", "IDLE"],
        ["other", "1", "0", "1"],
        ["ml", "1", "1", "0"],
    ]
    assert done.stderr == "no history: name one with --prometheus\n"
    assert [row[0] for row in table(run([*bundled, "-n", "ml"]).stdout)] == ["NAMESPACE", "ml"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--by", "node"], "use namespace, workload or class", id="by-node"),
        pytest.param(["-l", "a=b"], "history has no labels", id="labels"),
        pytest.param(["--since", "1s"], "from 1m to 90d", id="too-short"),
        pytest.param(["--since", "53w"], "from 1m to 90d", id="too-long"),
        pytest.param(["--since", "soon"], "not a valid duration", id="no-time"),
        pytest.param(["--batch"], "does not work with --batch", id="batch"),
        pytest.param(["--prometheus", "http://h"], "a bundle is of one moment", id="a-bundle"),
        pytest.param(["--prometheus-ca", __file__], "need --prometheus", id="a-ca-for-nothing"),
        pytest.param(["--prometheus-token-file", __file__], "need --prometheus", id="a-token-for-nothing"),
        pytest.param(["--prometheus-label", "cluster"], "use the form cluster=eu-1", id="no-label"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(bundled, arguments, text):
    refused = run([*bundled, *arguments])
    assert (refused.exit_code, text in refused.stderr) == (2, True), refused.stderr


def test_history_without_idle_is_a_usage_error(bundled):
    refused = CliRunner().invoke(main, ["usage", *bundled, "--prometheus", "http://h"])
    assert (refused.exit_code, "--prometheus needs --idle" in refused.stderr) == (2, True)


def test_a_prometheus_that_is_not_there_fails(monkeypatch):
    monkeypatch.setattr(SnapshotSource, "read", lambda _self, _scope: EVERYTHING)
    refused = run(["--prometheus", "http://127.0.0.1:1"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "Prometheus http://127.0.0.1:1: cannot connect" in refused.stderr
