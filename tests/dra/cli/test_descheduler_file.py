"""Files of deschedulers as people have them: documented ones load, one with a shifted block is shown repaired."""

import click
import pytest
import yaml

from dra.api.durations import SECOND
from dra.cli.descheduler_file import FieldLines, load, parse, read, repair_indentation
from tests.violations import for_each_case

SAMPLE = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
clientConnection:
  kubeconfig: "/home/user/admin.kubeconfig"
leaderElection:
  leaderElect: false
  resourceName: test-descheduler
  resourceNamespace: kube-system
deschedulingInterval: 10s
dryRun: true
profiles:
- name: koord-descheduler
  plugins:
    evict:
      enabled:
      - name: MigrationController
   deschedule:
     enabled:
     - name: RemovePodsHavingTooManyRestarts
  pluginConfig:
  - name: RemovePodsHavingTooManyRestarts
    args:
      apiVersion: descheduler/v1alpha2
      kind: RemovePodsHavingTooManyRestartsArgs
      podRestartThreshold: 10
"""
"""The facts of the sample in Koordinator's release notes of v1.2, with its fault: deschedule is a column short."""


def test_the_sample_of_the_release_notes_is_refused_at_its_line_and_shown_repaired():
    with pytest.raises(click.ClickException) as refused:
        parse(SAMPLE, name="file")
    message = refused.value.message
    assert message.startswith("file: not valid YAML: ")
    assert "line 17, column 4" in message
    assert "-   deschedule:\n-     enabled:\n-     - name: RemovePodsHavingTooManyRestarts" in message
    assert "+    deschedule:\n+      enabled:\n+      - name: RemovePodsHavingTooManyRestarts" in message


def test_the_repaired_sample_runs():
    found = parse(repair_indentation(SAMPLE), name="file")
    (profile,) = found.descheduling.profiles
    ((plugin, args),) = profile.deschedule
    assert (plugin.name, args.pod_restart_threshold) == ("RemovePodsHavingTooManyRestarts", 10)
    assert (found.descheduling.interval, found.descheduling.dry_run) == (10.0, True)
    assert found.configuration.kubeconfig == "/home/user/admin.kubeconfig"
    assert found.configuration.leader_election.name == "test-descheduler"
    assert profile.evictor == "MigrationController"
    assert found.descheduling.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("profiles: [", id="no-block"),
        pytest.param("a: b: c", id="not-an-indentation"),
        pytest.param(SAMPLE.replace("podRestartThreshold: 10", "podRestartThreshold: 0"), id="wrong-elsewhere-as-well"),
        pytest.param("a:\n\tb: 1", id="tabulator"),
    ],
)
def test_what_one_moved_block_does_not_mend_gets_no_proposal(text):
    assert repair_indentation(text) is None
    with pytest.raises(click.ClickException, match="not valid YAML") as refused:
        parse(text, name="file")
    assert "repaired" not in refused.value.message


def test_strategies_are_shown_as_profiles():
    with pytest.raises(click.ClickException) as refused:
        parse("apiVersion: descheduler/v1alpha1\nstrategies: {RemoveDuplicates: {enabled: true}}", name="file")
    message, _, proposal = refused.value.message.partition("\n")
    assert message.endswith("(line 2)")
    found = parse(proposal.partition("\n\n")[2], name="file")
    assert [plugin.name for plugin, _ in found.descheduling.profiles[0].balance] == ["RemoveDuplicates"]


def policy(**profile):
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [{"name": "p", **profile}]}


def enabled(point, *names):
    return {"plugins": {point: {"enabled": list(names)}}}


def args(**by_plugin):
    return {"pluginConfig": [{"name": name, "args": given} for name, given in by_plugin.items()]}


REQUIRED_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
LOAD = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "LowNodeLoadArgs",
    "evictableNamespaces": {"exclude": ["kube-system", "koordinator-system"]},
    "useDeviationThresholds": False,
    "lowThresholds": {"cpu": 45, "memory": 55},
    "highThresholds": {"cpu": 75, "memory": 80},
}
MIGRATION = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "MigrationControllerArgs",
    "evictionPolicy": "Eviction",
    "namespaces": {"exclude": ["kube-system", "koordinator-system"]},
    "evictQPS": "10",
    "evictBurst": 1,
}
ALL = [{"name": "*"}]
DOCUMENTED = [
    pytest.param(
        policy(
            plugins={
                "deschedule": {
                    "enabled": ["RemovePodsViolatingInterPodAntiAffinity", "RemovePodsHavingTooManyRestarts"]
                },
                "balance": {
                    "enabled": ["RemoveDuplicates", "LowNodeUtilization", "RemovePodsViolatingTopologySpreadConstraint"]
                },
            },
            pluginConfig=[
                {"name": "RemoveDuplicates"},
                {"name": "RemovePodsViolatingInterPodAntiAffinity"},
                {
                    "name": "LowNodeUtilization",
                    "args": {
                        "thresholds": {"cpu": 20, "memory": 20, "pods": 20},
                        "targetThresholds": {"cpu": 50, "memory": 50, "pods": 50},
                    },
                },
                {
                    "name": "RemovePodsHavingTooManyRestarts",
                    "args": {"podRestartThreshold": 100, "includingInitContainers": True},
                },
                {
                    "name": "RemovePodsViolatingTopologySpreadConstraint",
                    "args": {"constraints": ["DoNotSchedule", "ScheduleAnyway"]},
                },
            ],
        ),
        5,
        id="community-policy",
    ),
    pytest.param(
        policy(
            **enabled("deschedule", "PodLifeTime"),
            **args(
                PodLifeTime={
                    "states": ["Succeeded"],
                    "conditions": [
                        {"reason": "PodCompleted", "status": "True", "minTimeSinceLastTransitionSeconds": 14400}
                    ],
                    "namespaces": {"include": ["default"]},
                }
            ),
        ),
        1,
        id="community-pod-life-time-by-condition",
    ),
    pytest.param(
        policy(
            **enabled("deschedule", "PodLifeTime"),
            **args(PodLifeTime={"maxPodLifeTimeSeconds": 604800, "states": ["Pending", "PodInitializing"]}),
        ),
        1,
        id="community-pod-life-time",
    ),
    pytest.param(
        policy(
            **enabled("deschedule", "RemoveFailedPods"),
            **args(
                RemoveFailedPods={
                    "reasons": ["OutOfcpu", "CreateContainerConfigError"],
                    "includingInitContainers": True,
                    "excludeOwnerKinds": ["Job"],
                    "minPodLifetimeSeconds": 3600,
                }
            ),
        ),
        1,
        id="community-failed-pods",
    ),
    pytest.param(
        policy(
            **enabled("deschedule", "RemovePodsViolatingNodeAffinity"),
            **args(RemovePodsViolatingNodeAffinity={"nodeAffinityType": [REQUIRED_AFFINITY]}),
        ),
        1,
        id="community-node-affinity",
    ),
    pytest.param(
        policy(**enabled("balance", "HighNodeUtilization"), **args(HighNodeUtilization={"thresholds": {"memory": 20}})),
        1,
        id="community-high-node-utilization",
    ),
    pytest.param(
        {
            **policy(
                **enabled("deschedule", "RemovePodsViolatingNodeTaints"),
                **args(
                    DefaultEvictor={
                        "nodeSelector": "node=node1",
                        "evictLocalStoragePods": True,
                        "priorityThreshold": {"name": "high"},
                        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                        "minReplicas": 2,
                        "minPodAge": "5m",
                        "nodeFit": True,
                        "noEvictionPolicy": "Mandatory",
                    },
                    RemovePodsViolatingNodeTaints={"excludedTaints": ["dedicated=special-user", "reserved"]},
                ),
            ),
            "nodeSelector": "node=node1",
            "maxNoOfPodsToEvictPerNode": 5,
            "maxNoOfPodsToEvictPerNamespace": 5000,
            "maxNoOfPodsToEvictTotal": 5000,
            "gracePeriodSeconds": 60,
            "evictionFailureEventNotification": True,
            "metricsProviders": [{"source": "KubernetesMetrics"}],
        },
        1,
        id="community-top-level-and-evictor",
    ),
    pytest.param(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerConfiguration",
            "enableContentionProfiling": True,
            "enableProfiling": True,
            "healthzBindAddress": "0.0.0.0:10251",
            "metricsBindAddress": "0.0.0.0:10251",
            "leaderElection": {
                "resourceLock": "leases",
                "resourceName": "koord-descheduler",
                "resourceNamespace": "koordinator-system",
            },
            "deschedulingInterval": "10s",
            "dryRun": False,
            "profiles": [
                {
                    "name": "koord-descheduler",
                    "plugins": {
                        "deschedule": {"disabled": ALL},
                        "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                        "evict": {"disabled": ALL, "enabled": [{"name": "MigrationController"}]},
                    },
                    **args(MigrationController=MIGRATION, LowNodeLoad=LOAD),
                }
            ],
        },
        1,
        id="koordinator-as-installed-with-low-node-load",
    ),
]


@for_each_case(DOCUMENTED)
def test_a_documented_configuration_is_read_without_a_warning(content, plugins):
    found = parse(yaml.safe_dump(content), name="file")
    (profile,) = found.descheduling.profiles
    assert len(profile.deschedule) + len(profile.balance) == plugins
    assert found.descheduling.warnings == ()


def test_the_command_line_wins(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("profiles: [{}]\ndeschedulingInterval: 1h")
    found = read(path, given={"descheduling_interval": 30 * SECOND, "dry_run": True}).compile({})
    assert (found.descheduling.interval, found.descheduling.dry_run) == (30.0, True)


def test_without_a_file_there_are_the_defaults():
    assert load(None).descheduling is None


def test_a_file_is_named(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("qps: 0")
    with pytest.raises(click.ClickException, match=r"configuration .*config\.yaml: qps: .* \(line 1\)"):
        load(path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param(("a",), 1, id="field"),
        pytest.param(("a", 1, "c"), 4, id="field-of-an-item"),
        pytest.param(("a", 1, "d"), 3, id="missing-field-is-where-its-object-is"),
        pytest.param(("a", 9), 1, id="missing-item"),
        pytest.param(("b",), 1, id="missing-at-the-top"),
    ],
)
def test_lines_of_fields(path, line):
    assert FieldLines("a:\n- b: 1\n- b: 2\n  c: 3\n").line(path) == line
