"""`kubectl dra deschedule --dry-run` as typed, on bundles."""

import json

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from dra.engine.diagnosis.descheduling_snapshot import OLDER_BUNDLE
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from tests.dra.cli.kubectl.descheduling.bundles import (
    LOW_NODE_UTILIZATION,
    bundle,
    configuration,
    hot_cluster,
    node,
    pod,
    snapshot,
)


@pytest.fixture
def deschedule(tmp_path):
    """Run the command on a snapshot with a configuration."""

    def run(found, text=LOW_NODE_UTILIZATION, *arguments):
        files = ["-f", configuration(tmp_path, text), "--from", bundle(tmp_path, found)]
        return CliRunner().invoke(main, ["deschedule", "--dry-run", *files, *arguments])

    return run


def test_pods_of_a_hot_node_would_go_to_the_empty_ones_within_the_limit(deschedule):
    done = deschedule(hot_cluster(), LOW_NODE_UTILIZATION, "-o", "json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    going = content["items"]
    assert [(each["from"], each["plugin"], each["evictor"]) for each in going] == [
        ("n1", "LowNodeUtilization", "MigrationController")
    ] * 2
    assert {each["to"] for each in going} <= {"n2", "n3"}
    assert all("cpu" in each["why"] for each in going)
    assert "NodeLimit" in {each["refusal"] for each in content["staying"]}


def test_the_table_names_the_limit_once_for_all_pods(deschedule):
    done = deschedule(hot_cluster())
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["POD", "FROM", "TO", "PLUGIN", "WHY"]
    assert len([line for line in lines if line.startswith("shop/")]) == 2
    assert len([line for line in lines if "maxNoOfPodsToEvictPerNode" in line]) == 1
    assert "would go; nothing was changed; limits and rules are those of" in done.stderr


def test_a_steady_cluster_says_why_nothing_goes(deschedule):
    quiet = snapshot(nodes=[node("n1"), node("n2")], pods=[pod("web-1", "n1"), pod("web-2", "n2")])
    done = deschedule(quiet)
    assert done.exit_code == 0, done.output
    assert "  note      profile default: LowNodeUtilization: " in done.stdout
    assert "0 of 0 candidates would go" in done.stderr


def test_only_one_pod_goes_where_one_place_is_free(deschedule):
    """D#1805: a dry run showed ten pods for one free place."""
    others = [pod(f"full-{number}", "n2", owner=f"full{number}", namespace="other") for number in range(7)]
    pods = [pod("a", "n1", owner="a"), pod("b", "n1", owner="b")]
    text = """
profiles:
- plugins: {deschedule: {enabled: [{name: PodLifeTime}]}}
  pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60, namespaces: {include: [shop]}}}]
"""
    found = snapshot(nodes=[node("n1"), node("n2")], pods=[*pods, *others], replicas={"a": 3, "b": 3})
    content = json.loads(deschedule(found, text, "-o", "json").stdout)
    assert len(content["items"]) == 1, content
    (stays,) = content["staying"]
    assert stays["refusal"] == "NoPlace"
    assert "cpu" in stays["message"]


def test_who_is_protected_stays_with_the_reason(deschedule):
    critical = pod("dns-0", "n1", owner="dns", priority=2_000_000_000)
    text = """
profiles:
- plugins: {deschedule: {enabled: [{name: PodLifeTime}]}}
  pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}]
"""
    done = deschedule(snapshot(nodes=[node("n1"), node("n2")], pods=[critical], replicas={"dns": 3}), text)
    assert done.exit_code == 0, done.output
    assert "  protected pod shop/dns-0, named by PodLifeTime: " in done.stdout


def test_the_pods_of_one_namespace_can_be_asked_for(deschedule):
    assert json.loads(deschedule(hot_cluster(), LOW_NODE_UTILIZATION, "-n", "ml", "-o", "json").stdout)["items"] == []
    assert deschedule(hot_cluster(), LOW_NODE_UTILIZATION, "-n", "shop", "-o", "name").stdout.count("pod/") == 2


LOW_NODE_LOAD = """
profiles:
- plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
  pluginConfig:
  - name: LowNodeLoad
    args:
      lowThresholds: {cpu: 20}
      highThresholds: {cpu: 50}
      anomalyCondition: {consecutiveAbnormalities: 5}
"""


def metric(name, used, pods=()):
    each_uses = {"resources": {"cpu": "470m", "memory": "64Mi"}}
    system = {"resources": {"cpu": used if not pods else "100m", "memory": "64Mi"}}
    status = {
        "updateTime": "2026-11-28T11:59:50Z",
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": used, "memory": "1Gi"}}, "systemUsage": system},
        "podsMetric": [{"name": name, "namespace": "shop", "podUsage": each_uses} for name in pods],
    }
    return {"metadata": {"name": name, "uid": f"uid-metric-{name}"}, "status": status}


def test_a_plugin_that_counts_reports_is_asked_as_if_it_had_seen_them(deschedule):
    found = hot_cluster(
        nodeMetrics=[
            metric("n1", "3800m", [f"{owner}-{number}" for owner in ("web", "api", "db", "job") for number in (1, 2)]),
            metric("n2", "100m"),
            metric("n3", "100m"),
        ]
    )
    done = deschedule(found, LOW_NODE_LOAD)
    assert done.exit_code == 0, done.output
    assert "LowNodeLoad" in done.stdout.splitlines()[1], done.stdout
    assert (
        "  unknown   a dry run remembers no earlier round: LowNodeLoad is asked as if its anomalyCondition"
        in done.stdout
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("migration: {}\n", "the configuration has no profiles", id="no-profiles"),
        pytest.param(
            LOW_NODE_UTILIZATION.replace("targetThresholds: {cpu: 50}", "targetThresholds: {cpu: 10}"),
            "profiles[0].pluginConfig[0].args.",
            id="low-above-high",
        ),
        pytest.param(LOW_NODE_UTILIZATION.replace("LowNode", "LowNod"), "no plugin is named", id="an-unknown-plugin"),
        pytest.param(
            "apiVersion: descheduler/v1alpha1\nstrategies: {RemoveDuplicates: {enabled: true}}\n",
            "In profiles (fields without a counterpart are left out",
            id="a-policy-of-2022-with-its-translation",
        ),
        pytest.param("profiles: {", "not valid YAML", id="no-yaml"),
        pytest.param("[]", "must be a mapping", id="a-list"),
    ],
)
def test_a_configuration_with_which_no_descheduler_starts_is_an_error_with_its_path(deschedule, text, told):
    done = deschedule(hot_cluster(), text)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr


def test_without_dry_run_nothing_happens_and_the_reason_is_said(tmp_path):
    done = CliRunner().invoke(main, ["deschedule", "-f", configuration(tmp_path, LOW_NODE_UTILIZATION)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "this command evicts nothing: give --dry-run" in " ".join(done.stderr.split())


def test_a_bundle_needs_a_configuration_beside_it(tmp_path):
    done = CliRunner().invoke(main, ["deschedule", "--dry-run", "--from", bundle(tmp_path, hot_cluster())])
    assert (done.exit_code, "give one with -f FILE" in done.stderr) == (2, True)


def test_a_bundle_of_an_older_version_says_what_the_round_cannot_see(tmp_path):
    write_bundle(Snapshot(taken="2026-11-28T12:00:00Z"), tmp_path / "old.tgz")
    files = ["-f", configuration(tmp_path, LOW_NODE_UTILIZATION), "--from", str(tmp_path / "old.tgz")]
    done = CliRunner().invoke(main, ["deschedule", "--dry-run", *files])
    assert f"  unknown   {OLDER_BUNDLE}" in done.stdout


def test_objects_that_could_not_be_read_are_told_and_give_exit_code_1(deschedule):
    done = deschedule(hot_cluster(gaps=[UnreadResource(resource="nodes", why="forbidden")]))
    assert done.exit_code == 1
    assert "  unknown   not read: nodes: forbidden" in done.stdout
