"""Complete rounds, from the text of a configuration to the decisions: the plugins that look at pods one by one.

The examples of docs/how-to/descheduler-plugins.md are loaded and played, and what people reported about these plugins
of the community's descheduler is tried.
"""

import re
from pathlib import Path

import pytest
import yaml

from dra.api.descheduler.forms import read_configuration
from dra.engine.descheduling.plugin_catalog import BUILT_IN
from dra.engine.descheduling.profiles import compile_descheduling
from dra.engine.descheduling.round import run_round
from dra.engine.migration.pod_index import workload_of
from tests.dra.engine.descheduling.clusters import node, pod, snapshot
from tests.dra.engine.descheduling.plugins.playing import container, evicted, reasons, refused, statuses
from tests.dra.engine.migration.examples import budget
from tests.violations import for_each_case

PAGE = (Path(__file__).parents[4] / "docs/how-to/descheduler-plugins.md").read_text()
EXAMPLES = dict(re.findall(r"^### (\w+)$.*?^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
OLD = {"created": -9000}


def test_the_page_lists_each_plugin_with_its_extension_points():
    table = dict(re.findall(r"^\| `(\w+)` \| ([a-z, ]+) \|", PAGE.partition("## The plugins")[2], re.MULTILINE))
    missing = [plugin.name for plugin in BUILT_IN if plugin.name not in table]
    assert missing == []
    for plugin in BUILT_IN:
        points = {point for point in ("deschedule", "balance", "filter") if hasattr(plugin, point)}
        assert points == set(table[plugin.name].split(", ")) - {"evict"}, plugin.name


def play(text, nodes, pods, **objects):
    """Return the result of a round of a configuration, given as a text or as its content; workloads want 3 pods."""
    content = yaml.safe_load(text) if isinstance(text, str) else text
    descheduling = compile_descheduling(read_configuration(content))
    replicas = {workload: 3 for each in pods if (workload := workload_of(each)) is not None}
    cluster = snapshot(nodes, pods, replicas=replicas, **objects)
    result = run_round(cluster, descheduling.profiles_on(cluster.objects.nodes), limits=descheduling.limits)
    assert not result.faults
    return result


def policy(plugin, args=None, **evictor):
    """Return a configuration of the community's form."""
    configs = [{"name": "DefaultEvictor", "args": evictor}, {"name": plugin, "args": args or {}}]
    plugins = {"deschedule": {"enabled": [plugin]}}
    profiles = [{"name": "default", "pluginConfig": configs, "plugins": plugins}]
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": profiles}


def own(plugin, args=None, **more):
    """Return a configuration of our own form."""
    plugins = {"deschedule": {"enabled": [{"name": plugin}]}}
    profiles = [{"plugins": plugins, "pluginConfig": [{"name": plugin, "args": args or {}}]}]
    return {"profiles": profiles, **more}


def message(result):
    """Return why the only candidate stays."""
    (decision,) = result.decisions
    return decision.verdict.message


NODES = [node("n1", cpu="32"), node("n2", cpu="32")]
FAILED = {"phase": "Failed"} | statuses(container(terminated="Error", code=1))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APART = {
    "podAntiAffinity": {
        REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]
    }
}
TAINTED = node("n1", cpu="32", taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])

PLAYED = {
    "PodLifeTime": (
        NODES,
        [
            pod("stuck", **OLD, status={"phase": "Pending"}),
            pod("running", **OLD),
            pod("young", status={"phase": "Pending"}, owner="db"),
        ],
        ["stuck"],
    ),
    "RemoveFailedPods": (
        NODES,
        [
            pod("evicted", **OLD, status={"phase": "Failed", "reason": "Evicted"}),
            pod("error", **OLD, status=FAILED),
            pod("young", created=-3600, status={"phase": "Failed", "reason": "Evicted"}),
        ],
        ["evicted"],
    ),
    "RemovePodsHavingTooManyRestarts": (
        NODES,
        [
            pod("loop", **OLD, status=statuses(container(restarts=100, waiting="CrashLoopBackOff"))),
            pod("seldom", **OLD, status=statuses(container(restarts=99, waiting="CrashLoopBackOff")), owner="db"),
        ],
        ["loop"],
    ),
    "RemovePodsViolatingInterPodAntiAffinity": (
        NODES,
        [pod("shy", **OLD, affinity=APART), pod("other", **OLD, labels={"a": "b"}, owner="db")],
        ["shy"],
    ),
    "RemovePodsViolatingNodeAffinity": (
        [NODES[0], node("n2", cpu="32", labels={"pool": "a"})],
        [
            pod(
                "lost",
                **OLD,
                affinity={
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
                            ]
                        }
                    }
                },
            ),
            pod("content", **OLD, owner="db"),
        ],
        ["lost"],
    ),
    "RemovePodsViolatingNodeTaints": (
        [TAINTED, node("cordoned", cpu="32", unschedulable=True), NODES[1]],
        [pod("repelled", **OLD), pod("on-a-cordoned-node", "cordoned", **OLD, owner="db")],
        ["repelled"],
    ),
    "RemovePodsViolatingNodeReservation": (
        [node("n1", cpu="8", annotations={"node.koordinator.sh/reservation": '{"resources":{"cpu":"3"}}'}), NODES[1]],
        [pod(f"p{n}", owner=f"w{n}", **OLD) for n in range(7)],
        ["p0"],
    ),
}
"""Plugin → nodes, pods, and the pods that go with the example of the page; limits of the example included."""


@for_each_case(PLAYED)
def test_the_example_of_the_page_moves_what_it_says(plugin):
    nodes, pods, goes = PLAYED[plugin]
    result = play(EXAMPLES[plugin], nodes, pods)
    assert evicted(result) == goes


@for_each_case(EXAMPLES)
def test_every_example_of_the_page_is_a_configuration_without_warnings(plugin):
    descheduling = compile_descheduling(read_configuration(yaml.safe_load(EXAMPLES[plugin])))
    assert descheduling.warnings == ()
    names = [each.name for profile in descheduling.profiles for each, _ in (*profile.deschedule, *profile.balance)]
    assert names == [plugin]


@pytest.mark.parametrize(
    ("configuration", "nodes", "pods", "goes"),
    [
        pytest.param(
            policy("RemoveFailedPods", {"reasons": [], "minPodLifetimeSeconds": 60}),
            NODES,
            [pod("a", **OLD, status=FAILED)],
            ["a"],
            id="an-empty-list-of-reasons-means-any-reason",  # descheduler 1745
        ),
        pytest.param(
            policy("RemoveFailedPods"),
            NODES,
            [pod("a", **OLD, status={"phase": "Failed", "reason": "TopologyAffinityError"})],
            ["a"],
            id="a-pod-that-its-kubelet-refused-has-failed",  # descheduler 669
        ),
        pytest.param(
            policy("RemoveFailedPods"),
            NODES,
            [pod("a", **OLD, status=statuses(container(terminated="Error", code=1)))],
            [],
            id="a-failed-container-makes-no-failed-pod",  # descheduler 880
        ),
        pytest.param(
            policy("PodLifeTime", {"states": ["Error"]}),
            NODES,
            [pod("a", **OLD, status=statuses(container(terminated="Error", code=1)))],
            ["a"],
            id="a-failed-container-is-a-state-of-a-running-pod",  # descheduler 880
        ),
        pytest.param(
            policy("RemoveFailedPods", {"reasons": ["Evicted"]}),
            NODES,
            [pod("a", **OLD, status={"phase": "Failed", "reason": "Evicted"})],
            ["a"],
            id="pods-that-a-kubelet-evicted",  # descheduler 651
        ),
        pytest.param(
            policy("RemovePodsViolatingNodeTaints"),
            [TAINTED, NODES[1]],
            [pod("a", "n2", **OLD, tolerations=[{"key": "dedicated", "operator": "Exists"}])],
            [],
            id="a-toleration-is-no-wish-to-be-on-the-tainted-node",  # descheduler 1182
        ),
        pytest.param(
            policy("RemovePodsViolatingNodeTaints", nodeFit=True),
            [TAINTED, node("n2", cpu="32", taints=[{"key": "x", "effect": "PreferNoSchedule"}])],
            [pod("a", **OLD)],
            ["a"],
            id="a-taint-that-only-prefers-keeps-no-pod-off",  # descheduler 750
        ),
        pytest.param(
            policy("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 100}),
            NODES,
            [pod("a", **OLD, status=statuses(container(restarts=50), container(restarts=50)))],
            ["a"],
            id="the-threshold-is-for-the-sum-of-all-containers",  # openshift-docs 37228
        ),
        pytest.param(
            policy("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 10, "includingInitContainers": True}),
            NODES,
            [pod("a", **OLD, status=statuses(container(), init=[container(restarts=10)]))],
            ["a"],
            id="restarts-of-sidecars-and-init-containers-alone",  # descheduler 1348
        ),
        pytest.param(
            policy("RemovePodsViolatingInterPodAntiAffinity"),
            NODES,
            [pod("shy", **OLD, affinity=APART), pod("labelled-later", **OLD, labels={"a": "b"}, owner="db")],
            ["shy"],
            id="a-label-that-was-added-later-is-a-violation",  # descheduler 77
        ),
        pytest.param(
            policy("RemovePodsViolatingInterPodAntiAffinity"),
            NODES,
            [
                pod(
                    "attracted",
                    **OLD,
                    affinity={"podAffinity": APART["podAntiAffinity"]},
                ),
                pod("other", "n2", **OLD, labels={"a": "b"}, owner="db"),
            ],
            [],
            id="broken-affinity-to-pods-is-not-looked-at",  # descheduler 1286
        ),
        pytest.param(
            policy("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": [REQUIRED]}),
            [TAINTED, NODES[1]],
            [pod("a", **OLD)],
            [],
            id="a-taint-is-no-violation-of-an-affinity",  # descheduler 1210
        ),
        pytest.param(
            policy("PodLifeTime", {"maxPodLifeTimeSeconds": 120, "labelSelector": {"matchLabels": {"rotate": "yes"}}}),
            NODES,
            [pod(f"p{n}", created=-1000 + n, labels={"rotate": "yes"}, owner=f"w{n}") for n in (3, 1, 2)],
            ["p1", "p2"],  # two at a time from one node, by the MigrationController's default
            id="the-oldest-pods-go-first",  # descheduler 816
        ),
    ],
)
def test_what_people_reported(configuration, nodes, pods, goes):
    assert evicted(play(configuration, nodes, pods)) == goes


@pytest.mark.parametrize(
    ("configuration", "nodes", "pods", "text"),
    [
        pytest.param(
            policy("RemoveFailedPods"),
            NODES,
            [pod("a", **OLD, owner="", status=FAILED)],
            "pod ns/a: has no controller",
            id="a-failed-pod-without-an-owner",  # descheduler 1745, 1341
        ),
        pytest.param(
            policy("RemoveFailedPods"),
            NODES,
            [pod("a", **OLD, priority=2_000_000_000, status=FAILED)],
            "pod ns/a: is critical for the system",
            id="a-failed-pod-that-is-critical",  # descheduler 1775
        ),
        pytest.param(
            policy("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 5}),
            NODES,
            [pod("a", **OLD, owner="", status=statuses(container(restarts=99)))],
            "pod ns/a: has no controller",
            id="a-crashing-pod-without-an-owner",  # descheduler 1579
        ),
        pytest.param(
            policy("PodLifeTime", {"maxPodLifeTimeSeconds": 120}),
            NODES,
            [pod("a", **OLD, volumes=[{"name": "tmp", "emptyDir": {}}])],
            "would lose the data in its emptyDir or hostPath volumes",
            id="an-old-pod-with-an-emptyDir",  # descheduler 1269
        ),
        pytest.param(
            policy("RemovePodsViolatingInterPodAntiAffinity", nodeFit=True),
            [NODES[0], node("n2", unschedulable=True)],
            [pod("shy", **OLD, affinity=APART), pod("other", **OLD, labels={"a": "b"}, owner="db")],
            "pod ns/shy: 0/1 nodes are available: 1 node(s) were unschedulable",
            id="one-node-only-can-be-scheduled",  # descheduler 77
        ),
    ],
)
def test_a_pod_that_people_expected_to_go_says_why_it_stays(configuration, nodes, pods, text):
    assert text in message(play(configuration, nodes, pods))


@pytest.mark.parametrize(
    ("policy_of_budget", "goes"),
    [
        pytest.param("", [], id="the-budget-that-the-pod-itself-violates-keeps-it"),
        pytest.param("IfHealthyBudget", [], id="the-same-by-name"),
        pytest.param("AlwaysAllow", ["a"], id="pods-that-are-not-ready-may-always-go"),
    ],
)
def test_a_crashing_pod_and_its_own_budget(policy_of_budget, goes):
    crashing = pod(
        "a", **OLD, status=statuses(container(restarts=99), conditions=[{"type": "Ready", "status": "False"}])
    )
    covering = budget("b", allowed=0, healthy=0, desired=1, policy=policy_of_budget)
    configuration = policy("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 5})
    result = play(configuration, NODES, [crashing], disruption_budgets=(covering,))
    assert evicted(result) == goes
    if not goes:
        assert "poddisruptionbudget ns/b: allows 0" in message(result)


def test_replicas_of_the_same_age_go_one_after_the_other():
    pods = [pod(f"p{n}", **OLD) for n in range(3)]  # descheduler 1271
    result = play(own("PodLifeTime", {"maxPodLifeTimeSeconds": 600}), NODES, pods)
    assert evicted(result) == ["p0"]
    assert refused(result) == {"p1": "WorkloadLimit", "p2": "WorkloadLimit"}


def test_a_pod_named_by_two_plugins_goes_once():
    plugins = ["PodLifeTime", "RemovePodsHavingTooManyRestarts"]
    configs = [
        {"name": plugins[0], "args": {"maxPodLifeTimeSeconds": 600}},
        {"name": plugins[1], "args": {"podRestartThreshold": 1}},
    ]
    profile = {"plugins": {"deschedule": {"enabled": [{"name": each} for each in plugins]}}, "pluginConfig": configs}
    pods = [pod("a", **OLD, status=statuses(container(restarts=9)))]
    result = play({"profiles": [profile]}, NODES, pods)
    assert evicted(result) == ["a"]
    assert reasons(result) == {"a": "9000 s old, more than maxPodLifeTimeSeconds 600"}


def test_a_node_reservation_under_running_pods_moves_as_many_as_limits_allow_in_each_round():
    reserved = node("n1", cpu="8", annotations={"node.koordinator.sh/reservation": '{"resources":{"cpu":"3"}}'})
    pods = [pod(f"p{n}", owner=f"w{n}", **OLD) for n in range(7)]
    configuration = own("RemovePodsViolatingNodeReservation", migration={"maxMigratingPerNode": 2})
    result = play(configuration, [reserved, NODES[1]], pods)
    assert evicted(result) == ["p0", "p1"]
    limited = own("RemovePodsViolatingNodeReservation", maxNoOfPodsToEvictPerNode=1)
    assert evicted(play(limited, [reserved, NODES[1]], pods)) == ["p0"]


def test_pods_that_have_ended_are_removed_while_no_node_has_room():
    full = [node("n1", cpu="1"), node("n2", cpu="1", unschedulable=True)]
    pods = [pod("ended", **OLD, status={"phase": "Succeeded"}), pod("running", owner="db", **OLD)]
    result = play(policy("PodLifeTime", {"maxPodLifeTimeSeconds": 600}, nodeFit=True), full, pods)
    assert evicted(result) == ["ended"]
    assert refused(result) == {"running": "NoPlace"}
