"""Where the plugins answer differently on purpose, by kind; KEP-notes.md has a row for each.

A kind explains a group, which is the pods of one owner on one node, only if what it is about is there: a pod of the
group was refused for that reason, or the owner has what upstream does not count.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from dra.engine.descheduling.plugin import Refusal, Verdict
from dra.engine.descheduling.plugins.spread_constraint import spread_constraint
from dra.engine.descheduling.pods import DeschedulingPod, TopologySpreadConstraint
from dra.engine.descheduling.round import Decision, RoundResult
from dra.engine.descheduling.snapshot import Snapshot
from tests.descheduler_peer import clusters, judge

_UNSEEN: Final = ("pod anti-affinity", "pods anti-affinity", "topology spread", "pod affinity", "free ports")
"""Reasons of kube-scheduler that upstream does not know, or knows on the node alone."""

_TOPOLOGY: Final = "RemovePodsViolatingTopologySpreadConstraint"


class Kind(StrEnum):
    """Why an answer of ours is another one."""

    SCHEDULER_FILTERS = "a place must pass all filters of kube-scheduler; upstream asks for some of them"
    RECEIVERS = "a place must be on a node that the plugin counts as receiver; upstream asks for any other node"
    ENDED_PODS = "a pod that has ended needs no place"
    MIN_REPLICAS = "minReplicas counts what goes in the same round"
    ALL_COUNT = "pods count that are protected or fit nowhere else"
    TARGETS_WITH_ROOM = "only nodes with room for a replica are targets"
    BETTER_NODE_FITS = "a pod goes for a preference only if it fits on a better node"
    SOFT_TAINTS = "while soft taints count, a pod goes only to a node without these"
    PENDING_PODS_WAIT = "a pending pod waits until the terminating pods of its workload are gone"
    TERMINATING_PARTNER = "a pod that is being deleted conflicts with nobody"
    TAINTS = "taints of receivers count as for kube-scheduler: PreferNoSchedule keeps nobody off"
    INSTEAD = "another pod of the node goes instead of one that stays"
    NODE_ORDER = "nodes are ordered by their relative excess; upstream adds milli-CPUs and bytes"
    EXCLUDED_NODES = "pods on nodes that a constraint's policies exclude do not count"
    EARLIER_MOVES = "a constraint sees what the constraints before have moved"
    EQUALS = "which of equal pods go is arbitrary upstream"
    ORDER_UNDER_LIMIT = "which pods go under a limit depends on the order, which upstream does not fix"
    OTHER = ""
    """Not known: to be looked at."""


@dataclass(frozen=True)
class Case:
    """A policy, and both answers to it."""

    plugin: str
    policy: clusters.Json
    objects: list[clusters.Json]
    ours: judge.Answer
    theirs: judge.Answer
    result: RoundResult

    @cached_property
    def args(self) -> clusters.Json:
        """The arguments of the plugin."""
        return self._config(self.plugin)

    @cached_property
    def evictor(self) -> clusters.Json:
        """The arguments of the evictor."""
        return self._config("DefaultEvictor")

    @cached_property
    def has_limit(self) -> bool:
        """Whether the policy has a limit."""
        return any(name.startswith("maxNoOfPods") for name in self.policy)

    @cached_property
    def nodes(self) -> list[clusters.Json]:
        """The nodes that are ready."""
        return [
            content
            for content in self.objects
            if content["kind"] == "Node" and content["status"]["conditions"][0]["status"] == "True"
        ]

    @cached_property
    def fresh(self) -> Snapshot:
        """The cluster as it was before the round."""
        return judge.snapshot(self.objects)

    def seems_to_fit(self, pod: DeschedulingPod) -> bool:
        """Return whether a pod fits on another node by those filters that upstream has."""
        return any(
            not (reason := self.fresh.unfit_reason(pod, name)) or any(word in reason for word in _UNSEEN)
            for name in self.fresh.nodes
            if name != pod.spec.node_name
        )

    def size_of(self, node: str) -> int:
        """Return the sum of milli-CPUs and bytes that pods request of a node, by which upstream orders nodes."""
        requested = self.fresh.nodes[node].requested
        return requested.get("cpu", 0) // 1_000_000 + requested.get("memory", 0) // 1_000_000_000

    def total(self, owner: str = "") -> int:
        """Return how many more go than upstream, of one owner or of all."""
        more = Counter(dict(self.ours))
        more.subtract(dict(self.theirs))
        return sum(count for name, count in more.items() if name.endswith(f" {owner}" if owner else ""))

    def groups(self) -> Iterator["Group"]:
        """Yield the groups whose numbers differ."""
        ours, theirs = dict(self.ours), dict(self.theirs)
        for name in sorted(ours.keys() | theirs.keys()):
            if (more := ours.get(name, 0) - theirs.get(name, 0)) != 0:
                yield Group(self, name, more)

    def _config(self, name: str) -> Any:
        [profile] = self.policy["profiles"]
        return next(config["args"] for config in profile["pluginConfig"] if config["name"] == name)


@dataclass(frozen=True)
class Group:
    """The pods of an owner on a node, of which another number goes."""

    case: Case
    name: str
    more: int
    """How many more go here than upstream; negative if fewer."""

    @cached_property
    def decisions(self) -> list[Decision]:
        """What the round decided about pods of the group."""
        groups = judge.groups(self.case.objects)
        decisions = self.case.result.decisions
        return [decision for decision in decisions if groups["/".join(decision.pod.metadata.key)] == self.name]

    @cached_property
    def refusals(self) -> list[tuple[DeschedulingPod, Verdict]]:
        """The pods that stay, with the reason; of topology spread, those of the owner: any of its pods may be asked."""
        everywhere = self.case.plugin == _TOPOLOGY
        mine = self.owned if everywhere else self.decisions
        return [(decision.pod, decision.verdict) for decision in mine if not decision.verdict.accepted]

    @cached_property
    def owned(self) -> list[Decision]:
        """What the round decided about pods of the owner."""
        groups = judge.groups(self.case.objects)
        decisions = self.case.result.decisions
        return [
            decision
            for decision in decisions
            if groups["/".join(decision.pod.metadata.key)].partition(" ")[2] == self.owner
        ]

    def refused(self, refusal: Refusal, *words: str) -> bool:
        """Return whether a pod of the group was refused so, with one of some words in the message."""
        return any(
            verdict.refusal is refusal and (not words or any(word in verdict.message for word in words))
            for verdict in (decision.verdict for decision in self.decisions)
        )

    @cached_property
    def pods(self) -> list[DeschedulingPod]:
        """All pods of the owner, as a round has them."""
        keys = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in self.siblings}
        return [pod for pod in self.case.fresh.objects.pods if pod.metadata.key in keys]

    def has_phase(self, phase: str) -> bool:
        """Return whether a pod of the owner is in a phase."""
        return any(pod["status"]["phase"] == phase for pod in self.siblings)

    @cached_property
    def counted(self) -> list[DeschedulingPod]:
        """The pods of the owner that have not ended, and end not."""
        fresh = self.case.fresh
        ready = {name for name, host in fresh.nodes.items() if host.node.ready}
        return [pod for pod in self.pods if not (pod.terminal or pod.metadata.deleting) and pod.spec.node_name in ready]

    @cached_property
    def candidates(self) -> list[DeschedulingPod]:
        """The pods of the owner that upstream counts: those that may go, and fit elsewhere if that is asked for."""
        profile = judge.profile(self.case.policy)
        [(evictor, args)] = profile.filters
        fresh = self.case.fresh
        return [
            pod
            for pod in self.counted
            if not evictor.filter(pod, fresh, args) and (not profile.requires_place or self.case.seems_to_fit(pod))
        ]

    def lacks_candidates(self) -> bool:
        """Return whether upstream does not count a pod of the owner."""
        return len(self.candidates) < len(self.counted)

    def accepts(self, node: str) -> bool:
        """Return whether taints and labels of a node let the pods in."""
        host, pod = self.case.fresh.nodes[node], self.pods[0]
        tolerations = pod.spec.tolerations or ()
        return pod.spec.selects_node(node, dict(host.labels)) and all(
            any(toleration.tolerates(taint) for toleration in tolerations) for taint in host.node.spec.filtering_taints
        )

    @cached_property
    def owner(self) -> str:
        """The owner of the group."""
        return self.name.partition(" ")[2]

    @cached_property
    def siblings(self) -> list[clusters.Json]:
        """All pods of the owner."""
        groups = judge.groups(self.case.objects)
        return [
            content
            for content in self.case.objects
            if content["kind"] == "Pod"
            and groups[f"{content['metadata']['namespace']}/{content['metadata']['name']}"].partition(" ")[2]
            == self.owner
        ]


def kind(case: Case) -> Kind:
    """Return why an answer differs; `Kind.OTHER` if one of its groups does for no known reason."""
    kinds = [next(_kinds(group), Kind.OTHER) for group in case.groups()]
    return Kind.OTHER if Kind.OTHER in kinds else kinds[0]


def _kinds(group: Group) -> Iterator[Kind]:
    yield from _places(group)
    case = group.case
    if group.more < 0 and group.refused(Refusal.PROTECTED, "minReplicas"):
        yield Kind.MIN_REPLICAS
    if group.more > 0 and any(decision.verdict.accepted and decision.pod.terminal for decision in group.decisions):
        yield Kind.ENDED_PODS
    if (of_plugin := _OF_PLUGIN.get(case.plugin)) is not None:
        yield from of_plugin(group)
    if case.has_limit and case.total() == 0:
        yield Kind.ORDER_UNDER_LIMIT


def _life_time(group: Group) -> Iterator[Kind]:
    if (
        group.more < 0
        and any("pending pods" in note for note in group.case.result.notes)
        and group.has_phase("Pending")
    ):
        yield Kind.PENDING_PODS_WAIT


def _anti_affinity(group: Group) -> Iterator[Kind]:
    if group.more < 0 and any("deletionTimestamp" in pod["metadata"] for pod in group.siblings):
        yield Kind.TERMINATING_PARTNER


def _places(group: Group) -> Iterator[Kind]:
    """Yield the kinds about places: a pod of the owner has none, by what upstream does not ask for."""
    if group.more > 0:
        return
    refused = [pod for pod, verdict in group.refusals if verdict.refusal is Refusal.NO_PLACE]
    if any(word in verdict.message for _, verdict in group.refusals for word in _UNSEEN):
        yield Kind.SCHEDULER_FILTERS
    if group.case.plugin == "RemovePodsViolatingNodeAffinity" and refused:
        yield Kind.BETTER_NODE_FITS
    if group.case.args.get("includePreferNoSchedule") and refused:
        yield Kind.SOFT_TAINTS
    if any(group.case.seems_to_fit(pod) for pod in refused):
        yield Kind.RECEIVERS


def _spread(group: Group) -> Iterator[Kind]:
    if any("no node of a domain below" in note for note in group.case.result.notes):
        yield Kind.SCHEDULER_FILTERS
    if group.case.total(group.owner) == 0:
        yield Kind.EQUALS
    constraints = [spread_constraint(given, pod) for pod in group.pods for given in _looked_at(group, pod)]
    hosts = [group.case.fresh.nodes[pod.spec.node_name].node for pod in group.counted]
    if any(not constraint.includes(host) for constraint in constraints for host in hosts):
        yield Kind.EXCLUDED_NODES
    if group.lacks_candidates():
        yield Kind.ALL_COUNT
    if len({constraint.key for constraint in constraints}) > 1:
        yield Kind.EARLIER_MOVES


def _looked_at(group: Group, pod: DeschedulingPod) -> list[TopologySpreadConstraint]:
    wanted = group.case.args.get("constraints", ["DoNotSchedule"])
    return [given for given in pod.spec.topology_spread_constraints or () if given.when_unsatisfiable in wanted]


def _duplicates(group: Group) -> Iterator[Kind]:
    """Yield why another number of replicas goes: what upstream computes from its own numbers is what it answered."""
    theirs = dict(group.case.theirs).get(group.name, 0)
    fresh, node = group.case.fresh, group.name.partition(" ")[0]
    targets = [name for name in fresh.nodes if fresh.nodes[name].node.ready and group.accepts(name)]
    running = {pod.spec.node_name for pod in group.counted}
    is_full = any(name not in running and fresh.unfit_reason(group.pods[0], name) for name in targets)
    for candidates, reason, holds in (
        (group.counted, Kind.TARGETS_WITH_ROOM, is_full),
        (group.candidates, Kind.ALL_COUNT, group.lacks_candidates()),
        (group.candidates, Kind.TARGETS_WITH_ROOM, is_full),
    ):
        counts = Counter(pod.spec.node_name for pod in candidates)
        limit = -(-counts.total() // len(targets)) if len(targets) > 1 else counts.total()
        if holds and theirs == (max(0, counts[node] - limit) if counts[node] > 1 else 0):
            yield reason


def _utilization(group: Group) -> Iterator[Kind]:
    case = group.case
    sources = list(dict.fromkeys(decision.node for decision in case.result.decisions))
    undecided = {pod.metadata.uid for pod in group.pods} - {decision.pod.metadata.uid for decision in group.decisions}
    others = [name for name in case.fresh.nodes if name not in sources]
    if case.plugin == "HighNodeUtilization" and group.more < 0 and undecided:
        has_moved = any(decision.verdict.accepted for decision in case.result.decisions)
        if has_moved or not any(case.fresh.fitting_node(pod, among=others) for pod in group.pods):
            yield Kind.RECEIVERS  # no receiver has room for the pod, so that it was not even named
    signs = {other.more > 0 for other in case.groups()}
    prefers = any(taint["effect"] == "PreferNoSchedule" for node in case.nodes for taint in node["spec"]["taints"])
    if prefers and True in signs and dict(case.theirs).keys() <= dict(case.ours).keys() | {group.name}:
        yield Kind.TAINTS
    theirs = [name.partition(" ")[0] for name in dict(case.theirs)]
    nodes = list(dict.fromkeys((*sources, *theirs)))
    in_order = nodes == sorted(nodes, key=case.size_of, reverse=case.plugin == "LowNodeUtilization")
    if not in_order and signs == {True, False}:  # some go here, and others there
        yield Kind.NODE_ORDER
    if group.more > 0 and any(other.more < 0 and any(_kinds(other)) for other in case.groups()):
        yield Kind.INSTEAD


_OF_PLUGIN: Final = {
    "PodLifeTime": _life_time,
    "RemovePodsViolatingInterPodAntiAffinity": _anti_affinity,
    "RemoveDuplicates": _duplicates,
    _TOPOLOGY: _spread,
    "LowNodeUtilization": _utilization,
    "HighNodeUtilization": _utilization,
}
"""Plugin → what yields the kinds that it alone has."""
