"""Clusters with loads, in few words, for tests of the plugins that balance load."""

import msgspec

from dra.engine.descheduling.round import Limits, Profile, run_round
from dra.model.node_metrics import NodeMetric
from tests.dra.engine.descheduling import clusters
from tests.dra.engine.descheduling.clusters import NOW, at

__all__ = ["NOW", "at", "evicted", "metric", "moved_to", "node", "pods", "run"]


def node(name, *, cpu="1", memory="64Gi", pods=110, **more):
    """Return a node of one CPU."""
    return clusters.node(name, cpu=cpu, memory=memory, pods=str(pods), **more)


def pods(count, on, *, cpu="100m", prefix=None, memory=None, extra=None, **more):
    """Return pods of one ReplicaSet, named `prefix` and a number; `extra` has requests of other resources."""
    asked = {name: text for name, text in {"cpu": cpu, "memory": memory}.items() if text} | (extra or {})
    containers = [{"name": "c", "image": "i", "resources": {"requests": asked}}]
    given = {"containers": containers} | more
    return [clusters.pod(f"{prefix or on}-{number}", on, cpu="", **given) for number in range(count)]


def metric(name, use, *, system=("0", "0"), age=0.0, **status):
    """Return the NodeMetric of a node: `use` has pods with the CPUs and bytes that each uses."""
    reported = [
        {
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
            "podUsage": {"resources": {"cpu": cpu, "memory": memory}},
            **more,
        }
        for pod, cpu, memory, more in use
    ]
    content = {
        "metadata": {"name": name},
        "status": {
            "updateTime": at(-age),
            "nodeMetric": {"systemUsage": {"resources": {"cpu": system[0], "memory": system[1]}}},
            "podsMetric": reported,
            **status,
        },
    }
    return msgspec.convert(content, NodeMetric)


def run(plugin, args, nodes, pods, *, memory=None, now=NOW, limits=None, names=None, requires_place=True, **objects):
    """Run one round of one plugin; `args` are in the form of the file."""
    snapshot = clusters.snapshot(nodes, pods, now=now, memory=memory, **objects)
    given = plugin.Args.model_validate(args)
    profile = Profile(
        name="p",
        balance=((plugin, given),),
        nodes=None if names is None else frozenset(names),
        requires_place=requires_place,
    )
    result = run_round(snapshot, [profile], limits=limits or Limits())
    assert not result.faults, result.faults
    return result


def evicted(result):
    """Return the names of the pods that go, in order."""
    return [decision.pod.metadata.name for decision in result.decisions if decision.verdict.accepted]


def moved_to(result):
    """Return the nodes that pods go to."""
    return {decision.verdict.node for decision in result.decisions if decision.verdict.accepted}
