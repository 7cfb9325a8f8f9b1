"""Clusters, plugins and rounds for tests of rounds, in few words; the places are a fake that only counts slots."""

# ruff: noqa: ARG002 - a plugin need not use what it is given

from collections import Counter

import msgspec

from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round import Limits, Profile, run_round
from dra.engine.descheduling.snapshot import ClusterObjects, Snapshot
from dra.model.scheduling import SchedulerNode
from tests.dra.engine.migration.examples import NOW, READY, at


def pod(name, *, node="n1", namespace="ns", owner="web", kind="ReplicaSet", ready=True, created=-86400, **more):
    """Return a pod that a plugin may look at; `more` has fields of its metadata, spec or status."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": at(created),
    }
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-of-{owner}", "controller": True}
        metadata["ownerReferences"] = [reference]
    metadata |= more.pop("metadata", {})
    spec = {"nodeName": node, **more.pop("spec", {})}
    status = {"phase": "Running", "conditions": READY if ready else [], "startTime": at(created)}
    status |= more.pop("status", {})
    assert not more
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, DeschedulingPod)


def node(name):
    """Return a node that is ready."""
    content = {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": {"conditions": READY}}
    return msgspec.convert(content, SchedulerNode)


MIN_NODES = 2
"""Ready nodes that a round needs."""


class SlotSnapshot(Snapshot):
    """A snapshot in which each node has room for a number of pods; all pods fit on a node with room."""

    def __init__(self, pods, *, slots=None, memory=None, now=NOW, **objects):
        names = sorted({each.spec.node_name for each in pods if each.spec.node_name} | set(slots or ()))
        names += ["full-1", "full-2"][: max(0, MIN_NODES - len(names))]
        self.slots = dict.fromkeys(names, 100) | {"full-1": 0, "full-2": 0} | (slots or {})
        given = ClusterObjects(nodes=tuple(node(name) for name in names), pods=tuple(pods), **objects)
        super().__init__(given, now=now, memory=memory)
        self.asked = []
        """Pods whose place was looked for."""

    def _taken(self):
        targets = Counter(self.moved.values())
        return Counter({name: len(host.pods) for name, host in self.nodes.items()}) + targets

    def unfit_reason(self, pod, node):
        return "" if self._taken()[node] < self.slots[node] else "too many pods"

    def fitting_node(self, pod, *, among=None):
        self.asked.append(pod.metadata.name)
        names = sorted(self.nodes if among is None else among)
        free = (name for name in names if name != pod.spec.node_name and not self.unfit_reason(pod, name))
        return next(free, "")

    def no_place_reason(self, pod, *, among=None):
        return f"fits on none of {', '.join(sorted(self.nodes if among is None else among))}"

    def move(self, pod, node):
        self.nodes[pod.spec.node_name].pods.pop(pod.metadata.uid, None)
        self.moved[pod.metadata.uid] = node


class Naming:
    """A plugin that names pods in order, and keeps the verdicts."""

    Args = PluginArgs

    def __init__(self, *names, name="Naming", receivers=None, needs_place=True):
        self.name = name
        self._names, self._more = names, {"receivers": receivers, "needs_place": needs_place}
        self.verdicts = []

    def deschedule(self, snapshot, args):
        pods = {each.metadata.name: each for each in snapshot.objects.pods}
        for each in self._names:
            self.verdicts.append((yield Evict(pods[each], f"{self.name} says so", **self._more)))


class Balancing(Naming):
    """The same as a Balance plugin."""

    def balance(self, snapshot, args):
        return super().deschedule(snapshot, args)

    deschedule = None


ARGS = PluginArgs()


def profile(*deschedule, name="p", balance=(), filters=(), **more):
    """Return a profile of plugins with empty arguments."""
    plugins = {"deschedule": deschedule, "balance": balance, "filters": filters}
    points = {point: tuple((each, ARGS) for each in given) for point, given in plugins.items()}
    return Profile(name=name, **points, **more)


def play(pods, *profiles, limits=None, **more):
    """Run one round over pods; returns its result and the snapshot."""
    snapshot = pods if isinstance(pods, Snapshot) else SlotSnapshot(pods, **more)
    return run_round(snapshot, profiles, limits=Limits() if limits is None else limits), snapshot


def evicted(result):
    """Return the names of the pods that go, in order."""
    return [each.pod.metadata.name for each in result.decisions if each.verdict.accepted]


def refusals(result):
    """Return the refusals by name of the pod."""
    return {each.pod.metadata.name: str(each.verdict.refusal) for each in result.decisions if not each.verdict.accepted}
