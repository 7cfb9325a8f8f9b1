"""Values for the chart in which any two choices meet: pairwise over all that its schema lets one choose.

The choices are read from values.schema.json, so a new switch takes part by itself. Free-form values (tolerations,
labels and the like) are either what they are by default or what `FILLED` says; a new one must be added
there.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from tests.cluster.charts import CHART

Json = dict[str, Any]
Path = tuple[str, ...]
Row = dict[Path, Any]

ROOT: Final = CHART.parents[2]
SCHEMA: Final[Json] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

TOLERATION: Final = [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
TERM: Final = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}
AFFINITY: Final = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}
RESOURCES: Final = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
SPREAD: Final = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
INVENTORY: Final = yaml.safe_load((ROOT / "examples" / "gpus" / "inventory-one.yaml").read_text(encoding="utf-8"))
PODS: Final = {
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": TOLERATION,
    "affinity": AFFINITY,
    "resources": RESOURCES,
    "priorityClassName": "",
    "podLabels": {"team": "hpc"},
    "podAnnotations": {"example.com/scrape": "yes"},
}
MIGRATION: Final = {
    "maxConcurrentReconciles": 4,
    "arbitrationArgs.enabled": True,
    "arbitrationArgs.interval": "2s",
    "defaultJobTTL": "1h",
    "schedulerNames": ["other-scheduler"],
    "unschedulableSeconds": 2.5,
    "evictQPS": 0.5,
    "evictBurst": 5,
    "maxMigratingGlobally": 100,
    "maxMigratingPerNamespace": 10,
    "maxMigratingPerNode": 0,
    "maxMigratingPerWorkload": "20%",
    "maxUnavailablePerWorkload": 3,
    "objectLimiters.workload.duration": "0s",
    "objectLimiters.workload.maxMigrating": 1,
    "objectLimiters.workload.burst": 2,
    "objectLimiters.namespace.duration": "0s",
    "objectLimiters.namespace.maxMigrating": 0,
    "objectLimiters.namespace.burst": 3,
    "priorityThreshold": 1000,
    "labelSelector": {"migrate": "yes"},
    "namespaces.include": [],
    "namespaces.exclude": ["kube-system"],
    "nodeSelector": "pool=batch,!spot",
    "defaultDeleteOptions": {"gracePeriodSeconds": 30},
    "skipEvictionGates": ["PVC", "MaxMigratingPerNode"],
}

FILLED: Final[Mapping[str, Any]] = {
    "image.repository": "registry.example.com:5000/hpc/dra-reserve",
    "image.tag": "0.1.0-rc.1",
    "image.digest": f"sha256:{'0' * 64}",
    "imagePullSecrets": [{"name": "pull"}],
    "config.qps": 33.5,
    "config.burst": 50,
    "config.idleClaimHours": 12,
    "config.placeholderImage": "registry.example.com/pause:3.10",
    "config.releaseRules": [
        {"resource": "rayjobs.ray.io", "expression": "object.status.jobDeploymentStatus == 'Complete'"}
    ],
    "config.leaderElection.leaseSeconds": 30,
    "config.leaderElection.renewSeconds": 20,
    "config.leaderElection.retrySeconds": 1.5,
    "controller.replicas": 3,
    **{f"controller.{name}": value for name, value in PODS.items()},
    "controller.topologySpreadConstraints": [SPREAD, SPREAD | {"topologyKey": "x", "labelSelector": {}}],
    "controller.podDisruptionBudget.maxUnavailable": "50%",
    "kubeletPlugin.namespace.name": "other-nodes",
    "kubeletPlugin.cpu.reserved": "0-1,32",
    "kubeletPlugin.gpu.nvidiaRoot": "/run/nvidia/driver",
    "kubeletPlugin.gpu.simulated": INVENTORY,
    "kubeletPlugin.kubeletRoot": "/data/kubelet",
    **{f"kubeletPlugin.{name}": value for name, value in PODS.items()},
    "reservations.extender.replicas": 1,
    "reservations.extender.tlsSecret": "other-tls",
    "reservations.extender.clientNames": ["scheduler-1", "scheduler-2"],
    "reservations.extender.bindSeconds": 2.5,
    "reservations.extender.bindPlaceholders": True,
    "reservations.extender.loadAware.usageThresholds.cpu": 50,
    "reservations.extender.loadAware.usageThresholds.memory": 80.5,
    "reservations.extender.nodeName": "control-plane-1",
    **{f"reservations.extender.{name}": value for name, value in PODS.items()},
    "reservations.extender.topologySpreadConstraints": [SPREAD, SPREAD | {"topologyKey": "x", "labelSelector": {}}],
    "descheduler.replicas": 1,
    **{f"descheduler.{name}": value for name, value in PODS.items()},
    "descheduler.topologySpreadConstraints": [SPREAD, SPREAD | {"topologyKey": "x", "labelSelector": {}}],
    **{f"descheduler.migration.{name}": value for name, value in MIGRATION.items()},
    "descheduler.deschedulingInterval": "10m",
    "descheduler.maxNoOfPodsToEvictPerNode": 2,
    "descheduler.maxNoOfPodsToEvictPerNamespace": 0,
    "descheduler.maxNoOfPodsToEvictTotal": 20,
    "descheduler.profiles": [{"name": "a", "plugins": {"balance": {"enabled": [{"name": "RemoveDuplicates"}]}}}],
    "page.audience": "page.example.com",
    "page.allowedHosts": ["page.internal.example.com:8443"],
    "page.prometheus.url": "https://prometheus.monitoring:9091",
    "page.prometheus.labels": {"cluster": "eu-1"},
    "page.prometheus.ca.configMap": "prometheus-ca",
    "page.prometheus.ca.key": "service-ca.crt",
    "page.prometheus.token.secret": "prometheus-token",
    "page.prometheus.token.key": "bearer",
    "page.maxScopes": 100,
    "page.tlsSecret": "page-tls",
    "page.ingress.className": "nginx",
    "page.ingress.host": "page.example.com",
    "page.ingress.annotations": {"nginx.ingress.kubernetes.io/proxy-read-timeout": "3600"},
    "page.ingress.tls.secretName": "page-certificate",
    "page.replicas": 2,
    **{f"page.{name}": value for name, value in PODS.items()},
    "page.topologySpreadConstraints": [SPREAD, SPREAD | {"topologyKey": "x", "labelSelector": {}}],
    "colocation.profiles.replicas": 2,
    **{f"colocation.profiles.{name}": value for name, value in PODS.items()},
    "workloads": [{"group": "ray.io", "resource": "rayjobs"}, {"resource": "things"}],
    "networkPolicy.metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    "networkPolicy.schedulerFrom": [{"ipBlock": {"cidr": "192.0.2.10/32"}}],
    "networkPolicy.pageFrom": [{"namespaceSelector": {"matchLabels": {"name": "traefik"}}}],
    "podMonitor.interval": "10s",
    "podMonitor.labels": {"release": "prometheus"},
    "alerts.labels": {"release": "prometheus"},
    "dashboard.labels": {"grafana_dashboard": "yes"},
    "commonLabels": {"owner": "hpc"},
    "global": {"anything": True},
}

UNSAID: Final = object()
"""The choice to leave a value as it is."""


def leaves(node: Json = SCHEMA, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yield every value that can be set, with its schema."""
    if "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]]
    if "properties" not in node:
        yield path, node
        return
    for name, child in node["properties"].items():
        yield from leaves(child, (*path, name))


def choices() -> dict[Path, list[Any]]:
    """Return what each value may be."""
    found: dict[Path, list[Any]] = {}
    for path, schema in leaves():
        if "enum" in schema:
            found[path] = schema["enum"]
        elif schema.get("type") == "boolean":
            found[path] = [False, True]
        else:
            found[path] = [UNSAID, FILLED[".".join(path)]]
    return found


def rows(seed: int = 0) -> list[Json]:
    """Return values such that any two choices meet in some of them (greedily; some twenty)."""
    chance = random.Random(seed)  # noqa: S311 repeatable
    options = choices()
    missing = {
        frozenset(pair)
        for one, other in itertools.combinations(options, 2)
        for pair in itertools.product(
            ((one, i) for i in range(len(options[one]))), ((other, i) for i in range(len(options[other])))
        )
    }
    made: list[Json] = []
    while missing:
        chosen: dict[Path, int] = dict(min(missing, key=lambda pair: sorted(map(str, pair))))
        paths = [path for path in options if path not in chosen]
        chance.shuffle(paths)
        for path in paths:
            gains = [
                sum(frozenset(((path, i), other)) in missing for other in chosen.items())
                for i in range(len(options[path]))
            ]
            best = max(gains)
            chosen[path] = chance.choice([i for i, gain in enumerate(gains) if gain == best])
        missing -= {frozenset(pair) for pair in itertools.combinations(chosen.items(), 2)}
        made.append(_sound({path: options[path][i] for path, i in chosen.items()}))
    return made


def _sound(row: Row) -> Json:
    """Return the row as values, with what the chart refuses set right: it says itself what goes together."""
    values: Json = {}
    for path, value in row.items():
        if value is not UNSAID:
            section = values
            for name in path[:-1]:
                section = section.setdefault(name, {})
            section[path[-1]] = value
    if not values["config"]["leaderElection"]["enabled"]:
        values["controller"]["replicas"] = 1
    plugin = values["kubeletPlugin"]
    if not plugin["cpu"]["enabled"]:
        plugin["gpu"]["enabled"] = True
    plugin["cpu"]["besideStatic"] &= plugin["cpu"]["devices"] == "node"
    if values["page"]["ingress"]["enabled"]:
        values["page"]["ingress"]["host"] = FILLED["page.ingress.host"]
    plugin["gpu"]["simulated"] = FILLED["kubeletPlugin.gpu.simulated"]
    return values
