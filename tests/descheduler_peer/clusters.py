"""Clusters for descheduling, made from a seed: nodes, and workloads that were placed when there was room for them.

States are as a cluster gets into them: pods were placed where they fitted, and then labels and taints of nodes changed,
nodes were cordoned or lost, pods failed. A cordoned node has the taint, a pod that started has a start time, each owner
and each pod has a uid, and no node has more requests than room. Times are far from any limit of a policy.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

Json = dict[str, Any]

NOW: Final = datetime(2026, 1, 10, tzinfo=UTC)
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "example.com/gpu"
CRITICAL: Final = 2_000_000_000
PRIORITIES: Final = (0, 1, 2, 3, 5, 8, 100, 500, 1000, 2000, 10_000)
"""Each workload has another one: among pods of one priority, upstream takes any first."""
MEBIBYTE: Final = 1 << 20

DEFAULT_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
]
DEDICATED: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
SPOT: Final = {"key": "spot", "effect": "PreferNoSchedule"}


def moment(seconds_ago: float) -> str:
    """Return a time before the clusters' present."""
    return (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Node:
    """A node with what is left of it."""

    def __init__(self, random: Random, name: str) -> None:
        self.name = name
        self.cpu = random.choice((2000, 4000, 4000, 8000))
        self.memory = random.choice((8, 16, 32)) * 1024 * MEBIBYTE
        self.pods = random.choice((12, 30, 110))
        self.gpus = random.choice((0, 0, 0, 4))
        self.labels = {HOSTNAME: name, ZONE: random.choice("abc"), "pool": random.choice(("web", "batch"))}
        self.taints: list[Json] = [DEDICATED] if random.random() < 0.1 else []
        self.left = {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, GPU: self.gpus}
        self.weight = random.choice((1, 1, 2, 6))
        """How much more often than others the node was free when pods came."""
        self.ready = True
        self.cordoned = False

    def change(self, random: Random) -> None:
        """Change what an administrator or a failure changes while pods run."""
        if random.random() < 0.25:
            self.labels["pool"] = random.choice(("web", "batch", "new"))
        if random.random() < 0.12:
            self.taints.append(random.choice((DEDICATED, SPOT, SPOT)))
        if random.random() < 0.1:
            self.cordoned = True
            self.taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        if random.random() < 0.04:
            self.ready = False
            self.taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})

    def content(self) -> Json:
        amounts = {"cpu": f"{self.cpu}m", "memory": str(self.memory), "pods": str(self.pods)}
        if self.gpus:
            amounts[GPU] = str(self.gpus)
        taints = list({(taint["key"], taint["effect"]): taint for taint in self.taints}.values())
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "uid": f"node-{self.name}", "labels": self.labels},
            "spec": {"unschedulable": self.cordoned, "taints": taints},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}],
            },
        }


class _Workload:
    """A workload: what its pods have in common."""

    def __init__(self, random: Random, name: str, *, priority: int) -> None:
        self.name = name
        self.kind = random.choices(("ReplicaSet", "StatefulSet", "DaemonSet", "Job", ""), weights=(8, 2, 1, 1, 1))[0]
        self.namespace = random.choice(("shop", "shop", "data"))
        self.replicas = random.choice((1, 2, 3, 3, 4, 5, 6, 8, 10))
        self.requests = self._requests(random)
        self.priority = priority
        self.labels = {"app": name, "tier": random.choice(("front", "back"))}
        self.images = random.choice((["app:1"], ["app:1"], ["app:1", "proxy:2"]))
        self.tolerations = list(DEFAULT_TOLERATIONS)
        if random.random() < 0.15:
            self.tolerations.append({"key": "dedicated", "operator": "Exists"})
        self.has_scratch = random.random() < 0.08
        self.spec: Json = {}
        if random.random() < 0.1:
            self.spec["nodeSelector"] = {"pool": random.choice(("web", "batch"))}
        self._constrain(random)
        if random.random() < 0.06:
            self.namespace, self.priority = "kube-system", CRITICAL

    @staticmethod
    def _requests(random: Random) -> dict[str, int]:
        if random.random() < 0.1:
            return {}
        requests = {"cpu": random.choice((50, 100, 100, 200, 500, 1000))}
        if random.random() < 0.8:
            requests["memory"] = random.choice((64, 128, 512, 1024)) * MEBIBYTE
        if random.random() < 0.04:
            requests[GPU] = 1
        return requests

    def _constrain(self, random: Random) -> None:
        affinity: Json = {}
        if random.random() < 0.18:
            values = random.sample(("web", "batch"), random.choice((1, 1, 2)))
            terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": values}]}]
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        if random.random() < 0.18:
            preference = {
                "matchExpressions": [{"key": "pool", "operator": "In", "values": [random.choice(("web", "new"))]}]
            }
            affinity.setdefault("nodeAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": random.choice((1, 50)), "preference": preference}
            ]
        if random.random() < 0.15:
            key = random.choice((HOSTNAME, HOSTNAME, HOSTNAME, ZONE))
            term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": self.name}}}
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if affinity:
            self.spec["affinity"] = affinity
        if random.random() < 0.4:
            keys = random.choice(((ZONE,), (ZONE,), (HOSTNAME,), (ZONE, HOSTNAME)))
            self.spec["topologySpreadConstraints"] = [self._spread(random, key) for key in keys]

    def _spread(self, random: Random, key: str) -> Json:
        constraint: Json = {
            "topologyKey": key,
            "maxSkew": random.choice((1, 1, 1, 2, 3)),
            "whenUnsatisfiable": random.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": self.name}},
        }
        if random.random() < 0.1:
            constraint["nodeTaintsPolicy"] = "Honor"
        if random.random() < 0.05:
            constraint["nodeAffinityPolicy"] = "Ignore"
        return constraint

    def fits(self, node: _Node) -> bool:
        """Return whether a pod could be placed on a node, before anything changed."""
        tolerated = {toleration["key"] for toleration in self.tolerations}
        if any(taint["effect"] == "NoSchedule" and taint["key"] not in tolerated for taint in node.taints):
            return False
        selector = self.spec.get("nodeSelector", {})
        if not selector.items() <= node.labels.items():
            return False
        required = self._required_pools()
        if required is not None and node.labels["pool"] not in required:
            return False
        wanted: Mapping[str, int] = {**self.requests, "pods": 1}
        return all(node.left[resource] >= amount for resource, amount in wanted.items())

    def _required_pools(self) -> list[str] | None:
        affinity = self.spec.get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        return required and required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]

    def quantities(self) -> dict[str, str]:
        return {
            resource: f"{amount}m" if resource == "cpu" else str(amount) for resource, amount in self.requests.items()
        }

    def owners(self) -> list[Json]:
        if not self.kind:
            return []
        version = "batch/v1" if self.kind == "Job" else "apps/v1"
        uid = f"{self.namespace}-{self.kind}-{self.name}"
        return [{"apiVersion": version, "kind": self.kind, "name": self.name, "uid": uid, "controller": True}]


def _status(random: Random, workload: _Workload, age: int) -> Json:
    """Return the status of a pod of some age."""
    phase, container, ready = "Running", {"running": {}}, True
    chance = random.random()
    if workload.kind == "Job" and chance < 0.3:
        phase, container, ready = "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}, False
    elif chance < 0.06:
        code, reason = random.choice(((1, "Error"), (2, "Error"), (137, "OOMKilled")))
        phase, container, ready = "Failed", {"terminated": {"exitCode": code, "reason": reason}}, False
    elif chance < 0.1:
        reason = random.choice(("ContainerCreating", "ImagePullBackOff"))
        phase, container, ready = "Pending", {"waiting": {"reason": reason}}, False
    elif chance < 0.16:
        container, ready = {"waiting": {"reason": "CrashLoopBackOff"}}, False
    restarts = random.choice((0, 0, 0, 0, 1, 3, 7, 12, 30)) if phase == "Running" else 0
    changed = moment(random.randrange(0, max(1, age // 60)) * 60 + 30)
    status: Json = {
        "phase": phase,
        "startTime": moment(age - 2),
        "qosClass": _qos(workload),
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": changed}],
        "containerStatuses": [
            {"name": "c0", "restartCount": restarts, "state": container, "ready": ready, "image": "", "imageID": ""}
        ],
    }
    if random.random() < 0.2:
        init = {"exitCode": random.choice((0, 0, 3)), "reason": random.choice(("Completed", "Error"))}
        count = random.choice((0, 2, 6))
        status["initContainerStatuses"] = [
            {
                "name": "i0",
                "restartCount": count,
                "state": {"terminated": init},
                "ready": True,
                "image": "",
                "imageID": "",
            }
        ]
    if phase == "Failed" and random.random() < 0.3:
        status["reason"] = random.choice(("NodeAffinity", "UnexpectedAdmissionError"))
    return status


def _qos(workload: _Workload) -> str:
    if not workload.requests:
        return "BestEffort"
    has_limits = workload.priority >= 1000 and {"cpu", "memory"} <= workload.requests.keys()
    return "Guaranteed" if has_limits and len(workload.images) == 1 else "Burstable"


def _pod(random: Random, workload: _Workload, node: _Node, number: int) -> Json:
    age = random.choice((3, 8, 30, 90, 300, 1500, 9000)) * 60 + 30
    name = f"{workload.name}-{number}"
    quantities = workload.quantities()
    resources: Json = {"requests": quantities} if quantities else {}
    limited = quantities.keys() if _qos(workload) == "Guaranteed" else quantities.keys() & {GPU}
    if limited:
        resources["limits"] = {resource: quantities[resource] for resource in sorted(limited)}
    containers = [
        {"name": f"c{place}", "image": image, **({"resources": resources} if place == 0 and resources else {})}
        for place, image in enumerate(workload.images)
    ]
    spec: Json = {
        "nodeName": node.name,
        "priority": workload.priority,
        "tolerations": workload.tolerations,
        "containers": containers,
        **workload.spec,
    }
    if workload.has_scratch:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    metadata: Json = {
        "name": name,
        "namespace": workload.namespace,
        "uid": f"{workload.namespace}-{name}",
        "creationTimestamp": moment(age),
        "labels": workload.labels,
        "ownerReferences": workload.owners(),
    }
    if random.random() < 0.02:
        metadata |= {"deletionTimestamp": moment(5), "deletionGracePeriodSeconds": 30}
    status = _status(random, workload, age)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def cluster(seed: int) -> list[Json]:
    """Return the objects of a cluster."""
    random = Random(f"cluster {seed}")
    nodes = [_Node(random, f"n{number}") for number in range(1, random.randrange(3, 9))]
    pods = []
    for place, priority in enumerate(random.sample(PRIORITIES, random.randrange(3, 10))):
        workload = _Workload(random, f"w{place}", priority=priority)
        free = [node for node in nodes if workload.fits(node)]
        replicas = 1 if workload.kind == "" else workload.replicas
        if workload.kind == "DaemonSet":
            free, replicas = list(free), len(free)
        for number in range(replicas):
            free = [node for node in free if workload.fits(node)]
            if not free:
                break
            node = random.choices(free, weights=[candidate.weight for candidate in free])[0]
            if workload.kind == "DaemonSet":
                free.remove(node)
            for resource, amount in {**workload.requests, "pods": 1}.items():
                node.left[resource] -= amount
            pods.append(_pod(random, workload, node, number))
    for node in nodes:
        node.change(random)
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
        for name in ("shop", "data", "kube-system")
    ]
    return [*namespaces, *(node.content() for node in nodes), *pods]
