"""Configurations that no descheduler runs with: each is refused with the path, the line, and what to do.

Upstream's descheduler 0.36 accepts many of these and does nothing, or something else, without a word.
"""

import re

import click
import pytest

from dra.cli.descheduler_file import parse
from tests.violations import for_each_case

OWN = ""
POLICY = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
KOORDINATOR = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\n"


def policy(plugins, configs="[]", *, more=""):
    """Return a policy with one profile, whose fields are in flow style in one line each."""
    return f"{POLICY}{more}profiles:\n- name: a\n  plugins: {plugins}\n  pluginConfig: {configs}\n"


def deschedule(name, args):
    return policy(f"{{deschedule: {{enabled: [{name}]}}}}", f"[{{name: {name}, args: {args}}}]")


def balance(name, args):
    return policy(f"{{balance: {{enabled: [{name}]}}}}", f"[{{name: {name}, args: {args}}}]")


def koordinator(plugins, configs="[]", *, more=""):
    return f"{KOORDINATOR}{more}profiles:\n- name: a\n  plugins: {plugins}\n  pluginConfig: {configs}\n"


def migration(fields):
    return koordinator("{}", f"[{{name: MigrationController, args: {fields}}}]")


ARGS = "profiles[0].pluginConfig[0].args"
LOW = {"cpu": 20}
MALFORMED = [
    # The file.
    pytest.param("profiles: [", "not valid YAML", id="no-yaml"),
    pytest.param("[]", "must be a mapping", id="a-list"),
    pytest.param(
        "profile: []", "profile: unknown field; did you mean profiles? (line 1)", id="unknown-field-of-our-own-form"
    ),
    pytest.param(POLICY + "nodeFit: true", "nodeFit: unknown field; known are ", id="unknown-top-level"),
    pytest.param(POLICY + "profiles: []\nprofiles: []", "profiles: is there already, in line 3", id="a-field-twice"),
    pytest.param(KOORDINATOR + "profile: []", "profile: unknown field", id="unknown-top-level-of-koordinator"),
    pytest.param(
        "apiVersion: v1\nkind: ConfigMap\ndata: {policy.yaml: ''}", "kind: is a ConfigMap; give a file", id="configmap"
    ),
    pytest.param(
        "kind: CronJob\ndeschedulerPolicy: {profiles: []}",
        "deschedulerPolicy: is a value of a chart; give what is below it",
        id="values-of-the-chart",
    ),
    pytest.param(
        "deschedulerPolicy: {}", "deschedulerPolicy: is a value of a chart", id="the-value-of-the-chart-alone"
    ),
    pytest.param(
        deschedule("LeaveSpotNodes", "{}"),
        "RemovePodsViolatingTopologySpreadConstraint; a package with a plugin of yours must be installed here, too",
        id="a-plugin-whose-package-is-not-installed",
    ),
    pytest.param(
        "profiles: [{name: a, plugins: {balance: {enabled: [RemoveDuplicates]}}}]",
        "enabled[0]: a name alone is the form of DeschedulerPolicy; write {name: RemoveDuplicates} (line 1)",
        id="a-name-as-in-a-policy-in-our-own-form",
    ),
    pytest.param(
        koordinator("{evict: [{name: MigrationController}]}"),
        "profiles[0].plugins.evict: must be a mapping of fields, not a list (line 5)",
        id="a-list-where-a-set-is",
    ),
    pytest.param(
        deschedule("RemovePodsViolatingNodeTaints", "{excludedTaints: a=b}"),
        f"{ARGS}.excludedTaints: must be a list (line",
        id="a-text-where-a-list-is",
    ),
    pytest.param("kind: DeschedulerPolicy", "apiVersion: None is not descheduler/v1alpha2", id="no-version"),
    pytest.param(
        "apiVersion: descheduler/v1\nkind: DeschedulerPolicy", "apiVersion: 'descheduler/v1' is not", id="version"
    ),
    pytest.param("apiVersion: descheduler/v1alpha2", "kind: None is none of DeschedulerConf", id="no-kind"),
    pytest.param(
        "apiVersion: descheduler/v1alpha2\nkind: Policy", "kind: 'Policy' is none of DeschedulerConf", id="wrong-kind"
    ),
    pytest.param(
        POLICY + "strategies: {RemoveDuplicates: {enabled: true}}",
        "strategies: descheduler/v1alpha1 is no longer read",
        id="strategies-under-v1alpha2",
    ),
    pytest.param(
        "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\nprofiles: []",
        "apiVersion: descheduler/v1alpha1 is no longer read",
        id="v1alpha1",
    ),
    # Process fields.
    pytest.param(KOORDINATOR + "deschedulingInterval: 10", "deschedulingInterval: a number", id="interval-number"),
    pytest.param(KOORDINATOR + "deschedulingInterval: -1s", "deschedulingInterval: must be 0s", id="interval-negative"),
    pytest.param(KOORDINATOR + "deschedulingInterval: 1d", "deschedulingInterval: '1d' is not", id="interval-days"),
    pytest.param(KOORDINATOR + "leaderElection: {leaseDuration: 1s}", "leaderElection.leaseDuration: must", id="lease"),
    pytest.param(
        KOORDINATOR + "leaderElection: {resourceLock: endpoints}", "leaderElection.resourceLock: Input", id="lock"
    ),
    pytest.param(KOORDINATOR + "clientConnection: {qps: -1}", "clientConnection.qps: Input", id="negative-qps"),
    pytest.param(KOORDINATOR + 'healthzBindAddress: "0.0.0.0:http"', "healthzBindAddress: '0.0.0.0:http'", id="port"),
    pytest.param(KOORDINATOR + "nodeSelector: {pool: a}", "nodeSelector.pool: unknown field", id="no-label-selector"),
    pytest.param(POLICY + 'nodeSelector: "pool in a"', "nodeSelector: 'pool in a' is not a selector", id="selector"),
    pytest.param(
        POLICY + "maxNoOfPodsToEvictTotal: -1",
        "maxNoOfPodsToEvictTotal: must be 0 or more; 0 allows no eviction",
        id="negative-total-says-what-0-means",
    ),
    pytest.param(
        OWN + "maxNoOfPodsToEvictPerNode: -2", "maxNoOfPodsToEvictPerNode: must be 0 or more", id="negative-per-node"
    ),
    pytest.param(POLICY + "gracePeriodSeconds: -1", "gracePeriodSeconds: Input should be", id="grace-period"),
    pytest.param(POLICY + "metricsProviders: [{source: Datadog}]", "metricsProviders[0].source: Input", id="provider"),
    # Profiles.
    pytest.param(
        POLICY + "profiles:\n- {name: a}\n- {name: a}",
        "profiles[1].name: 'a' is the name of profiles[0] already (line 5)",
        id="equal-names",
    ),
    pytest.param(POLICY + "profiles:\n- {name: a}\n- {}", "profiles[1].name: is missing", id="a-profile-without-name"),
    pytest.param(POLICY + "profiles:\n- {name: a/b}", "profiles[0].name: must have at most", id="slash-in-a-name"),
    pytest.param(
        POLICY + "profiles:\n- {name: a, nodeFit: true}",
        "profiles[0].nodeFit: unknown field",
        id="unknown-field-of-a-profile",
    ),
    pytest.param(
        policy("{evictor: {enabled: [DefaultEvictor]}}"),
        "profiles[0].plugins.evictor: unknown field",
        id="evictor-no-point",
    ),
    pytest.param(
        koordinator("{deschedule: {enabled: [PodLifeTime]}}"),
        "profiles[0].plugins.deschedule.enabled[0]: ",
        id="plain-names-are-of-the-other-form",
    ),
    pytest.param(
        policy("{deschedule: {enabled: [{name: PodLifeTime}]}}"),
        "profiles[0].plugins.deschedule.enabled[0]: Input should be a valid string",
        id="objects-are-of-the-other-form",
    ),
    pytest.param(
        policy("{deschedule: {enabled: [PodLifetime]}}"),
        "profiles[0].plugins.deschedule.enabled[0]: no plugin is named 'PodLifetime'; did you mean PodLifeTime?",
        id="misspelled-plugin",
    ),
    pytest.param(
        policy("{deschedule: {enabled: [CustomPriority]}}"), "Koordinator's CustomPriority is not", id="not-supported"
    ),
    pytest.param(
        policy("{deschedule: {enabled: [RemoveDuplicates]}}"),
        "RemoveDuplicates has no part here; enable it under plugins.balance",
        id="balance-plugin-under-deschedule",
    ),
    pytest.param(
        policy("{balance: {enabled: [RemoveFailedPods]}}"),
        "RemoveFailedPods has no part here; enable it under plugins.deschedule",
        id="deschedule-plugin-under-balance",
    ),
    pytest.param(
        policy("{filter: {enabled: [RemoveFailedPods]}}"), "profiles[0].plugins.filter.enabled[0]", id="filter"
    ),
    pytest.param(
        policy("{preevictionfilter: {enabled: [Nobody]}}"),
        "profiles[0].plugins.preevictionfilter.enabled[0]: no plugin is named 'Nobody'",
        id="unknown-filter",
    ),
    pytest.param(policy("{sort: {enabled: [Nobody]}}"), "profiles[0].plugins.sort.enabled[0]: no plugin", id="sort"),
    pytest.param(
        koordinator("{evict: {enabled: [{name: PodLifeTime}]}}"), "plugins.evict.enabled[0]: PodLifeTime", id="evict"
    ),
    pytest.param(
        koordinator("{evict: {disabled: [{name: '*'}]}}"),
        "profiles[0].plugins.evict: no plugin evicts; enable MigrationController or DefaultEvictor",
        id="all-evictors-disabled",
    ),
    pytest.param(
        koordinator("{filter: {disabled: [{name: Nobody}]}}"),
        "profiles[0].plugins.filter.disabled[0]: no plugin is named 'Nobody'",
        id="unknown-plugin-disabled",
    ),
    pytest.param(
        policy("{balance: {enabled: [RemoveDuplicates, RemoveDuplicates]}}"),
        "profiles[0].plugins.balance.enabled[1]: RemoveDuplicates is enabled twice",
        id="enabled-twice",
    ),
    # Arguments, in general.
    pytest.param(
        policy("{}", "[{name: RemoveDuplicates}, {name: RemoveDuplicates}]"),
        "profiles[0].pluginConfig[1].name: RemoveDuplicates has arguments in profiles[0].pluginConfig[0] already",
        id="arguments-in-two-places",
    ),
    pytest.param(
        policy("{}", "[{name: DefaultEvictor, nodeFit: true}]"),
        "profiles[0].pluginConfig[0].nodeFit: is not read here; write arguments into args",
        id="an-argument-beside-args",
    ),
    pytest.param(policy("{}", "[{name: Nobody}]"), "profiles[0].pluginConfig[0].name: no plugin", id="config-unknown"),
    pytest.param(policy("{}", "[{args: {}}]"), "profiles[0].pluginConfig[0].name: Field required", id="config-no-name"),
    pytest.param(
        policy("{deschedule: {enabled: [PodLifeTime]}}"),
        "profiles[0].plugins.deschedule.enabled[0]: PodLifeTime needs arguments in pluginConfig",
        id="required-arguments-missing",
    ),
    pytest.param(
        deschedule("RemoveFailedPods", "{kind: PodLifeTimeArgs}"), f"{ARGS}.kind: 'PodLifeTimeArgs' is not", id="kind"
    ),
    pytest.param(
        deschedule("RemoveFailedPods", "{apiVersion: v1}"), f"{ARGS}.apiVersion: 'v1' is not", id="version-of-args"
    ),
    pytest.param(
        deschedule("RemoveFailedPods", "{reason: [a]}"), f"{ARGS}.reason: unknown field", id="unknown-argument"
    ),
    pytest.param(deschedule("RemoveFailedPods", "[]"), f"{ARGS}: Input should be", id="arguments-that-are-a-list"),
    pytest.param(
        deschedule("RemoveFailedPods", "{namespaces: {include: [a], exclude: [b]}}"),
        f"{ARGS}.namespaces: give include or exclude, not both",
        id="exclusive-lists",
    ),
    pytest.param(
        deschedule("RemoveFailedPods", "{labelSelector: {matchExpressions: [{key: a, operator: In}]}}"),
        f"{ARGS}.labelSelector.matchExpressions[0]: operator In needs values",
        id="operator-without-values",
    ),
    pytest.param(
        deschedule("RemoveFailedPods", "{labelSelector: {matchExpressions: [{key: a, operator: Gt}]}}"),
        f"{ARGS}.labelSelector.matchExpressions[0].operator: Input",
        id="operator-of-nodes",
    ),
    # Arguments of single plugins.
    pytest.param(
        deschedule("PodLifeTime", "{}"), f"{ARGS}: every pod would be evicted; give at least one of", id="no-criterion"
    ),
    pytest.param(
        deschedule("PodLifeTime", "{maxPodLifeTimeSeconds: -1}"), f"{ARGS}.maxPodLifeTimeSeconds: Input", id="age"
    ),
    pytest.param(
        deschedule("PodLifeTime", "{maxPodLifeTimeSeconds: 1, podStatusPhases: [Running]}"),
        f"{ARGS}.podStatusPhases: unknown field",
        id="argument-of-v1alpha1",
    ),
    pytest.param(
        deschedule("RemovePodsHavingTooManyRestarts", "{podRestartThreshold: 0}"),
        f"{ARGS}.podRestartThreshold: Input",
        id="no-restart",
    ),
    pytest.param(
        deschedule("RemovePodsViolatingNodeAffinity", "{nodeAffinityType: [required]}"),
        f"{ARGS}.nodeAffinityType",
        id="node-affinity-type",
    ),
    pytest.param(
        deschedule("RemovePodsViolatingNodeTaints", "{excludedTaints: [a], includedTaints: [b]}"),
        f"{ARGS}",
        id="exclusive-taints",
    ),
    pytest.param(
        balance("RemovePodsViolatingTopologySpreadConstraint", "{includeSoftConstraints: true}"),
        f"{ARGS}.includeSoftConstraints: unknown field",
        id="soft-constraints-of-v1alpha1",
    ),
    pytest.param(
        balance("LowNodeUtilization", "{thresholds: {cpu: 60}, targetThresholds: {cpu: 50}}"),
        f"{ARGS}.thresholds.cpu: 60 is above targetThresholds.cpu, 50 (line 6)",
        id="low-above-high",
    ),
    pytest.param(
        balance("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {memory: 50}}"),
        f"{ARGS}.targetThresholds.cpu: is missing",
        id="unequal-resources",
    ),
    pytest.param(
        balance("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {cpu: 101}}"),
        f"{ARGS}.targetThresholds.cpu: Input should be less than or equal to 100",
        id="more-than-all",
    ),
    pytest.param(
        balance("HighNodeUtilization", "{thresholds: {Pods: 20}}"), "'Pods' is no resource, did you mean", id="resource"
    ),
    pytest.param(
        balance("LowNodeLoad", "{lowThresholds: {cpu: 30}}"), f"{ARGS}.highThresholds.cpu: is missing", id="47-low-only"
    ),
    pytest.param(
        balance("LowNodeLoad", "{nodePools: [{nodeSelector: {}, lowThresholds: {cpu: 3}, highThresholds: {cpu: 2}}]}"),
        f"{ARGS}.nodePools[0].lowThresholds.cpu: 3 is above",
        id="low-above-high-in-a-pool",
    ),
    # DefaultEvictor.
    pytest.param(
        policy("{}", "[{name: DefaultEvictor, args: {priorityThreshold: {value: 1, name: high}}}]"),
        f"{ARGS}.priorityThreshold: give value or name, and not both",
        id="threshold-by-value-and-name",
    ),
    pytest.param(
        policy("{}", "[{name: DefaultEvictor, args: {podProtections: {extraEnabled: [DaemonSetPods]}}}]"),
        f"{ARGS}.podProtections.extraEnabled: DaemonSetPods is none of",
        id="protection-in-the-wrong-list",
    ),
    pytest.param(
        policy("{}", "[{name: DefaultEvictor, args: {podProtections: {extraEnabled: [PodsWithPVC, PodsWithPVC]}}}]"),
        f"{ARGS}.podProtections.extraEnabled: PodsWithPVC is there twice",
        id="protection-twice",
    ),
    pytest.param(
        policy(
            "{}",
            "[{name: DefaultEvictor, args: {ignorePvcPods: true, podProtections: {defaultDisabled: [DaemonSetPods]}}}]",
        ),
        f"{ARGS}: ignorePvcPods cannot be given beside podProtections",
        id="old-and-new-form",
    ),
    pytest.param(
        policy("{}", "[{name: DefaultEvictor, args: {minPodAge: 300}}]"), f"{ARGS}.minPodAge: a number", id="pod-age"
    ),
    pytest.param(
        policy("{}", "[{name: DefaultEvictor, args: {noEvictionPolicy: Never}}]"), f"{ARGS}.noEvictionPolicy", id="no"
    ),
    # MigrationController.
    pytest.param(
        migration("{maxMigratingPerNode: -1}"),
        f"{ARGS}.maxMigratingPerNode: must be 0 or more; 0 means no limit here",
        id="negative-limit-says-what-0-means",
    ),
    pytest.param(
        migration("{arbitrationArgs: {enabled: false}}"), f"{ARGS}.arbitrationArgs.enabled: arbitration", id="arbiter"
    ),
    pytest.param(migration("{arbitrationArgs: {interval: 2m}}"), f"{ARGS}.arbitrationArgs.interval: must", id="slow"),
    pytest.param(migration("{evictQPS: 0}"), f"{ARGS}.evictQPS: Input should be greater than 0", id="qps"),
    pytest.param(migration("{maxConcurrentReconciles: 0}"), f"{ARGS}.maxConcurrentReconciles", id="workers"),
    pytest.param(migration("{skipEvictionGates: [Pdb]}"), f"{ARGS}.skipEvictionGates[0]: Input", id="gate"),
    pytest.param(
        migration("{objectLimiters: {namespace: {duration: 1m, maxMigrating: 10%}}}"),
        f"{ARGS}.objectLimiters.namespace.maxMigrating: Input",
        id="percentage-of-a-namespace",
    ),
    pytest.param(
        migration("{objectLimiters: {namespace: {maxMigrating: 3}}}"),
        f"{ARGS}.objectLimiters.namespace: give duration and maxMigrating",
        id="limit-without-a-window",
    ),
    pytest.param(
        migration("{defaultDeleteOptions: {preconditions: {uid: a}}}"),
        f"{ARGS}.defaultDeleteOptions.preconditions: unknown field",
        id="uid-for-all-pods",
    ),
    pytest.param(migration("{approval: required}"), f"{ARGS}.approval: Input should be 'NotRequired'", id="approval"),
    pytest.param(
        KOORDINATOR
        + "profiles:\n- {name: a, pluginConfig: [{name: MigrationController, args: {evictBurst: 2}}]}\n"
        + "- {name: b, pluginConfig: [{name: MigrationController, args: {evictBurst: 3}}]}",
        "profiles[1].pluginConfig[0].args: differ from those of an earlier profile",
        id="two-controllers",
    ),
    pytest.param(
        "profiles: [{pluginConfig: [{name: MigrationController, args: {evictBurst: 2}}]}]",
        "profiles[0].pluginConfig[0].args: give these fields in migration",
        id="migration-in-two-places",
    ),
]


@for_each_case(MALFORMED)
def test_a_malformed_file_is_refused_with_the_field(text, problem):
    with pytest.raises(click.ClickException) as refused:
        parse(text, name="file")
    assert problem in refused.value.message
    assert refused.value.message.startswith("file: ")


def test_all_problems_of_a_profile_are_told_at_once():
    text = policy(
        "{balance: {enabled: [RemoveFailedPods, Nobody]}}", "[{name: Nobody}, {name: PodLifeTime, args: {states: 1}}]"
    )
    with pytest.raises(click.ClickException) as refused:
        parse(text, name="file")
    lines = re.findall(r"\(line ([0-9]+)\)", refused.value.message)
    assert lines == ["6", "6", "5", "5"]
