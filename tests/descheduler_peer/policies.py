"""A policy for each plugin of the community's descheduler, from a seed: arguments, those of the evictor, limits."""

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from tests.descheduler_peer.clusters import GPU, Json

_DESCHEDULE, _BALANCE = "deschedule", "balance"


def _some(random: Random, chance: float, **given: object) -> Json:
    return dict(given) if random.random() < chance else {}


def _namespaces(random: Random) -> Json:
    lists = random.choice(({"include": ["shop"]}, {"exclude": ["data"]}))
    return _some(random, 0.1, namespaces=lists)


def _selected(random: Random) -> Json:
    return _namespaces(random) | _some(random, 0.08, labelSelector={"matchLabels": {"tier": "front"}})


def _low(random: Random) -> Json:
    names = random.choice((("cpu",), ("cpu",), ("memory",), ("cpu", "memory"), ("cpu", "memory", "pods"), ("cpu", GPU)))
    if random.random() < 0.2:
        low, high = random.choice((5, 10)), random.choice((5, 10, 20))
        deviation = {"useDeviationThresholds": True}
    else:
        low, high, deviation = random.choice((10, 20, 30)), random.choice((30, 40, 50, 60)), {}
    return {
        "thresholds": dict.fromkeys(names, low),
        "targetThresholds": dict.fromkeys(names, high),
        **deviation,
        **_some(random, 0.1, numberOfNodes=1),
        **_some(random, 0.1, evictableNamespaces={"exclude": ["data"]}),
        **_some(random, 0.1, evictionLimits={"node": random.choice((1, 2))}),
    }


def _high(random: Random) -> Json:
    names = random.choice((("cpu",), ("cpu",), ("memory",), ("cpu", "memory"), ("cpu", "pods")))
    return {
        "thresholds": dict.fromkeys(names, random.choice((10, 20, 30, 40))),
        **_some(random, 0.1, numberOfNodes=1),
        **_some(random, 0.1, evictableNamespaces={"exclude": ["data"]}),
        **_some(random, 0.1, evictionModes=["OnlyThresholdingResources"]),
    }


def _life_time(random: Random) -> Json:
    conditions = [{"type": "Ready", "status": "False", "minTimeSinceLastTransitionSeconds": 600}]
    args: Json = {
        **_some(random, 0.8, maxPodLifeTimeSeconds=random.choice((600, 3600, 36_000))),
        **_some(
            random, 0.3, states=random.sample(("Running", "Pending", "Failed", "CrashLoopBackOff", "OOMKilled"), 2)
        ),
        **_some(random, 0.15, conditions=conditions),
        **_some(random, 0.15, exitCodes=[1, 137]),
        **_some(random, 0.15, ownerKinds=random.choice(({"include": ["Job"]}, {"exclude": ["StatefulSet"]}))),
        **_some(random, 0.2, includingInitContainers=True),
    }
    if not args.keys() & {"maxPodLifeTimeSeconds", "states", "conditions", "exitCodes"}:
        args["maxPodLifeTimeSeconds"] = 600
    return args | _selected(random)


def _failed(random: Random) -> Json:
    return {
        **_some(random, 0.3, reasons=random.choice((["OOMKilled"], ["Error"], ["NodeAffinity", "OOMKilled"]))),
        **_some(random, 0.3, exitCodes=random.choice(([1], [2, 137], [3]))),
        **_some(random, 0.2, excludeOwnerKinds=["Job"]),
        **_some(random, 0.7, minPodLifetimeSeconds=random.choice((0, 600))),
        **_some(random, 0.3, includingInitContainers=True),
        **_selected(random),
    }


def _restarts(random: Random) -> Json:
    return {
        "podRestartThreshold": random.choice((1, 5, 10, 20)),
        **_some(random, 0.4, includingInitContainers=True),
        **_some(random, 0.3, states=random.choice((["Running"], ["CrashLoopBackOff"]))),
        **_selected(random),
    }


_REQUIRED, _PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


def _affinity(random: Random) -> Json:
    types = random.choice(([_REQUIRED], [_REQUIRED], [_PREFERRED], [_REQUIRED, _PREFERRED]))
    return {"nodeAffinityType": types, **_selected(random)}


def _taints(random: Random) -> Json:
    lists = random.choice(
        ({"excludedTaints": ["dedicated"]}, {"excludedTaints": ["dedicated=batch"]}, {"includedTaints": ["dedicated"]})
    )
    return {
        **_some(random, 0.4, includePreferNoSchedule=True),
        **(lists if random.random() < 0.3 else {}),
        **_selected(random),
    }


def _spread(random: Random) -> Json:
    return {
        **_some(random, 0.4, constraints=["DoNotSchedule", "ScheduleAnyway"]),
        **_some(random, 0.15, topologyBalanceNodeFit=False),
        **_selected(random),
    }


def _duplicates(random: Random) -> Json:
    return _some(random, 0.1, excludeOwnerKinds=["StatefulSet"]) | _namespaces(random)


PLUGINS: Final[Mapping[str, tuple[str, Callable[[Random], Json]]]] = MappingProxyType(
    {
        "PodLifeTime": (_DESCHEDULE, _life_time),
        "RemoveFailedPods": (_DESCHEDULE, _failed),
        "RemovePodsHavingTooManyRestarts": (_DESCHEDULE, _restarts),
        "RemovePodsViolatingInterPodAntiAffinity": (_DESCHEDULE, _selected),
        "RemovePodsViolatingNodeAffinity": (_DESCHEDULE, _affinity),
        "RemovePodsViolatingNodeTaints": (_DESCHEDULE, _taints),
        "RemoveDuplicates": (_BALANCE, _duplicates),
        "RemovePodsViolatingTopologySpreadConstraint": (_BALANCE, _spread),
        "LowNodeUtilization": (_BALANCE, _low),
        "HighNodeUtilization": (_BALANCE, _high),
    }
)
"""Plugin → its extension point, and what makes its arguments."""


def _evictor(random: Random) -> Json:
    return {
        **_some(random, 0.7, nodeFit=True),
        **_some(random, 0.06, minReplicas=2),
        **_some(random, 0.08, minPodAge="10m"),
        **_some(random, 0.08, priorityThreshold={"value": 1000}),
        **_some(random, 0.06, labelSelector={"matchLabels": {"tier": "front"}}),
        **random.choice(
            (
                {},
                {},
                {},
                {"evictLocalStoragePods": True},
                {"evictFailedBarePods": True},
                {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}},
            )
        ),
    }


def _limits(random: Random) -> Json:
    name = random.choice(("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal"))
    return _some(random, 0.08, **{name: random.choice((0, 1, 2, 3))})


def policy(seed: int, plugin: str) -> Json:
    """Return the policy for a plugin and a seed."""
    random = Random(f"policy {seed} {plugin}")
    point, make = PLUGINS[plugin]
    configs = [{"name": "DefaultEvictor", "args": _evictor(random)}, {"name": plugin, "args": make(random)}]
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        **_limits(random),
        "profiles": [{"name": plugin, "plugins": {point: {"enabled": [plugin]}}, "pluginConfig": configs}],
    }
