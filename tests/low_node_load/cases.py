"""Generated clusters for LowNodeLoad: each seed is a question to both plugins.

Every pod has a metric, as Koordinator 1.6 panics without. A cordoned node has the taint as in a real cluster. Each pod
is of an age of its own, so that no two of them are equal to either side.
"""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

Json = dict[str, Any]

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
PROTECTED: Final = "protected"
CLASSES: Final = ("koord-prod", "koord-batch", "koord-free", "koord-mid", "")
CPUS: Final = (4000, 8000, 16000)


def question(seed: int) -> Json:
    """Return the cluster and the arguments of a seed."""
    random = Random(seed)  # noqa: S311 - nothing secret
    nodes, pods, metrics = [], [], []
    for index in range(random.randint(2, 7)):
        name, cpu = f"n{index}", random.choice(CPUS)
        # CPUs decide; memory is ample, but where it is to be the bottleneck of a node
        memory = random.choice((16, 32, 64)) * 2**30
        nodes.append(_node(name, cpu, memory, cordoned=random.random() < 0.1, pool=random.choice("ab")))
        wanted = random.choice((0.05, 0.15, 0.3, 0.5, 0.7, 0.95)) * cpu
        there, use = _pods(random, name, wanted, memory, first=len(pods))
        pods += there
        metrics.append(_metric(name, use, system=random.choice((0, 0, 100, 400))))
    return {"args": _args(random), "nodes": nodes, "pods": pods, "metrics": metrics}


def _args(random: Random) -> Json:
    deviation = random.random() < 0.25
    args: Json = {
        "nodeFit": random.random() < 0.5,
        "anomalyCondition": {"consecutiveAbnormalities": 1},
        "lowThresholds": {},
        "highThresholds": {},
    }
    if deviation:
        args["useDeviationThresholds"] = True
    for name in random.choice((["cpu"], ["cpu"], ["cpu", "memory"], ["cpu", "pods"])):
        low, high = sorted(random.choices(range(3, 16), k=2)) if deviation else _pair(random)
        args["lowThresholds"][name], args["highThresholds"][name] = low, high
    if not deviation and random.random() < 0.3:
        high = args["highThresholds"]["cpu"]
        args["prodLowThresholds"] = {"cpu": max(1, args["lowThresholds"]["cpu"] - 10)}
        args["prodHighThresholds"] = {"cpu": max(args["prodLowThresholds"]["cpu"], high - random.randint(5, 20))}
    if random.random() < 0.15:
        args["numberOfNodes"] = random.randint(1, 2)
    if random.random() < 0.2:
        args["evictableNamespaces"] = {"exclude": ["kube"]}
    if random.random() < 0.15:
        args["resourceWeights"] = {"cpu": random.randint(1, 4), "memory": random.randint(1, 4)}
    if random.random() < 0.15:
        args["podSelectors"] = [{"name": "web", "selector": {"matchLabels": {"app": "web"}}}]
    return args


def _pair(random: Random) -> tuple[int, int]:
    low = random.randint(10, 40)
    return low, random.randint(low + 5, 80)


def _node(name: str, cpu: int, memory: int, *, cordoned: bool, pool: str) -> Json:
    spec: Json = {}
    if cordoned:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        spec = {"unschedulable": True, "taints": [taint]}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": pool}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": f"{cpu}m", "memory": str(memory), "pods": "40"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pods(random: Random, node: str, cpu: float, memory: int, *, first: int) -> tuple[list[Json], list[Json]]:
    """Return pods that use so many milli-CPUs together, with their metrics."""
    pods, use, left, room = [], [], cpu, float(memory)
    while left > 50 and len(pods) < 20:
        milli = min(left, random.choice((50, 100, 200, 400, 800, 1600)) * random.uniform(0.5, 1.5))
        held = min(room * 0.5, random.uniform(0.005, 0.08) * memory)
        number = first + len(pods)
        pods.append(_pod(random, node, number, round(milli)))
        left, room = left - milli, room - held
        meta = pods[-1]["metadata"]
        resources = {"cpu": f"{round(milli)}m", "memory": str(round(held))}
        use.append({"namespace": meta["namespace"], "name": meta["name"], "podUsage": {"resources": resources}})
    return pods, use


def _pod(random: Random, node: str, number: int, milli: int) -> Json:
    name, labels = f"p{number}", {"app": random.choice(("web", "db"))}
    if class_ := random.choice(CLASSES):
        labels["koordinator.sh/priority-class"] = class_
    if random.random() < 0.1:
        labels[PROTECTED] = "yes"
    requests = {} if random.random() < 0.1 else {"cpu": f"{max(1, round(milli * random.uniform(0.2, 0.8)))}m"}
    spec: Json = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    if random.random() < 0.2:
        spec["priority"] = random.choice((1, 100, 1000))
    if random.random() < 0.05:
        spec["nodeSelector"] = {"pool": "a"}
    created = (EPOCH + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "kube" if random.random() < 0.1 else "ns",
            "uid": f"uid-{name}",
            "labels": labels,
            "creationTimestamp": created,
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": {"phase": "Running", "qosClass": "Burstable" if requests else "BestEffort"},
    }


def _metric(name: str, use: list[Json], *, system: int) -> Json:
    resources = {"cpu": f"{system}m", "memory": "0"}
    return {
        "metadata": {"name": name},
        "status": {"nodeMetric": {"nodeUsage": {}, "systemUsage": {"resources": resources}}, "podsMetric": use},
    }
