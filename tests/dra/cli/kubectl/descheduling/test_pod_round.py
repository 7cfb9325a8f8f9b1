"""What `kubectl dra explain pod` says about the next round: why the pod would go, and why not."""

import json

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from tests.dra.cli.kubectl.descheduling.bundles import (
    LOW_NODE_UTILIZATION,
    bundle,
    configuration,
    hot_cluster,
    node,
    pod,
    snapshot,
)

OLD_PODS = """
profiles:
- name: age
  plugins: {deschedule: {enabled: [{name: PodLifeTime}]}}
  pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60, namespaces: {include: [shop]}}}]
"""


@pytest.fixture
def explain(tmp_path):
    """Explain a pod of a bundle."""

    def run(found, name, *arguments, text=LOW_NODE_UTILIZATION, namespace="shop"):
        files = ["--config", configuration(tmp_path, text), "--from", bundle(tmp_path, found)]
        return CliRunner().invoke(main, ["explain", "pod", name, "-n", namespace, *files, *arguments])

    return run


def test_a_pod_that_would_go_names_plugin_node_and_reason(explain):
    done = explain(hot_cluster(), "api-1")
    assert done.exit_code == 0, done.output
    assert (
        "  round     would move the pod to node n2: LowNodeUtilization of profile default: node is overutilized, "
        in done.stdout
    )
    assert "limits and rules are those of" in done.stdout


def test_a_pod_that_a_limit_keeps_names_the_limit(explain):
    done = explain(hot_cluster(), "api-2")
    assert "  round     LowNodeUtilization of profile default would move the pod (node is overutilized" in done.stdout
    assert "), but it stays: " in done.stdout


def test_a_pod_that_no_plugin_names_says_so(explain):
    quiet = snapshot(nodes=[node("n1"), node("n2")], pods=[pod("web-1", "n1"), pod("web-2", "n2")])
    done = explain(quiet, "web-1")
    assert "  round     the pod stays: no plugin of profile default names it" in done.stdout


def test_a_bare_pod_that_no_plugin_names_says_what_would_keep_it_in_any_case(explain):
    bare = snapshot(nodes=[node("n1"), node("n2")], pods=[pod("one", "n1", owner="", namespace="other")])
    done = explain(bare, "one", text=OLD_PODS, namespace="other")
    assert "  round     the pod stays: no plugin of profile age names it" in done.stdout
    assert "  round     profile age would keep the pod in any case: pod other/one: " in done.stdout


def test_structured_output_has_the_decisions(explain):
    content = json.loads(explain(hot_cluster(), "api-1", "-o", "json").stdout)
    (decision,) = content["round"]["decisions"]
    assert (decision["plugin"], decision["accepted"], decision["from"]) == ("LowNodeUtilization", True, "n1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("migration: {}", "limits and rules are those of", id="no-profiles"),
        pytest.param(None, "a bundle has no configuration; name the descheduler's with --config", id="no-file"),
    ],
)
def test_why_a_pod_is_not_moved_without_profiles_is_told_where_pods_are_migrated(tmp_path, text, said):
    found = snapshot(
        nodes=[node("n1"), node("n2")],
        pods=[pod("web-1", "n2")],
        migrations=[{"metadata": MOVED["metadata"], "content": MOVED}],
    )
    given = [] if text is None else ["--config", configuration(tmp_path, text)]
    arguments = ["explain", "pod", "web-1", "-n", "shop", "--from", bundle(tmp_path, found), *given]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"  round     no profiles are known, by which a round would move pods: {said}" in " ".join(
        done.stdout.split("\n            ")
    )


def test_without_a_configuration_a_bundle_says_nothing_about_rounds(tmp_path):
    arguments = ["explain", "pod", "api-1", "-n", "shop", "--from", bundle(tmp_path, hot_cluster())]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "round" in done.stdout) == (0, False)


def test_a_configuration_for_another_kind_is_a_usage_error(tmp_path):
    arguments = ["explain", "node", "n1", "--config", configuration(tmp_path, OLD_PODS)]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "--config requires pod/NAME" in done.stderr) == (2, True)


def test_a_configuration_that_no_descheduler_accepts_is_an_error(explain):
    done = explain(hot_cluster(), "api-1", text="profiles: [{plugin: {}}]")
    assert (done.exit_code, "profiles[0].plugin" in done.stderr) == (2, True)


MOVED = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "PodMigrationJob",
    "metadata": {
        "name": "move",
        "uid": "u-move",
        "creationTimestamp": "2026-11-28T11:50:00Z",
        "annotations": {
            "koordinator.sh/evict-trigger": "LowNodeUtilization",
            "koordinator.sh/evict-reason": "node is overutilized",
            "koordinator.sh/job-created-by": "dra-reserve-descheduler",
            "reserve.dra/profile": "default",
        },
    },
    "spec": {"podRef": {"namespace": "shop", "name": "web-0"}},
    "status": {"phase": "Succeeded", "nodeName": "n2", "podRef": {"namespace": "shop", "name": "web-1"}},
}


def test_a_pod_that_was_moved_says_by_which_plugin_and_why(explain):
    job = {"metadata": MOVED["metadata"], "content": MOVED}
    found = snapshot(nodes=[node("n1"), node("n2")], pods=[pod("web-1", "n2")], migrations=[job])
    done = explain(found, "web-1")
    assert "  moved     by migration move, 10m ago: it replaces pod shop/web-0" in done.stdout
    assert "  why       LowNodeUtilization of profile default: node is overutilized" in done.stdout
