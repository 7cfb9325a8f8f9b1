"""What must never be, checked after each write and at each restart of a kubelet.

- The controller writes nothing of a Node but its batch resources, capacity and allocatable alike.
- What it writes is never less than what pods that a kubelet has admitted hold there.
- What it writes is never more than capacity × reclaim threshold, unless pods that were admitted hold more.
- A measurement that is old, or cannot be, offers nothing that is not held. A pod that names the node, and that no
  kubelet has admitted yet, may be held up to what was offered in the last minute: a binding may be in flight.
- It writes as often as something happens, and not more often.

The controller learns of everything through watches, so each rule counts only for what happened `Slack` seconds ago.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.engine.instants import BIND_HORIZON
from dra.kube.resources import CONFIG_MAPS, NODE_METRICS, NODES, PODS
from localplane.objects import Object
from localplane.store import WatchCacheEvent, WatchEventType
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.colocation import nodes
from tests.simulation.colocation.nodes import BATCH

if TYPE_CHECKING:
    from tests.simulation.colocation.cluster import ColocatedCluster

CONTROLLERS: Final = frozenset({"controller", "controller-2"})

CALM_SLACK: Final = 5.0
FAULTY_SLACK: Final = 75.0
"""Seconds for which the controller may not know yet; with faults, a silent watch is noticed after that time."""

WINDOW: Final = 60.0
"""Seconds in which writes are counted."""
WRITES_ALLOWED: Final = 20
"""Writes of a node in a window without any cause: retries, the one that is due after ``updateTimeThreshold``, and those
of two controllers that disagree, three each at once and then after growing pauses."""
WRITES_PER_CAUSE: Final = 2

_IGNORED: Final = ("resourceVersion", "managedFields")


class ColocationSafetyChecker:
    """Checks writes and restarts of kubelets; raises Violation."""

    def __init__(self, cluster: "ColocatedCluster") -> None:
        self._cluster = cluster
        self.faults_until = float("-inf")
        """Time until which requests or watches may fail, or the controller is down."""
        self.fresh: dict[str, float] = {}
        """Node → time of the last measurement, as old as it was then, that can be believed."""
        self.disturbed: dict[str, float] = {}
        """Node → time at which somebody else last wrote its batch resources, or its Node was made anew."""
        self._started: dict[str, float] = {}
        """Uid of a pod → time at which a kubelet admitted it."""
        self._held_before: dict[str, deque[tuple[float, int, int]]] = defaultdict(deque)
        """Node → what was held, after each change."""
        self._offered_before: dict[str, deque[tuple[float, nodes.Amounts]]] = defaultdict(deque)
        """Node → what was offered, and the time at which that ended."""
        self._causes: dict[str, list[float]] = defaultdict(list)
        self._writes: dict[str, list[float]] = defaultdict(list)
        self.reclaim = [0, 0]
        """The greatest reclaim thresholds, of CPU and memory, that were ever configured."""
        self.degrade = 0.0
        """The greatest number of seconds after which a measurement counts no more."""

    @property
    def slack(self) -> float:
        """Seconds for which the controller may not know yet what has happened."""
        return FAULTY_SLACK if self._cluster.clock.now() < self.faults_until + FAULTY_SLACK else CALM_SLACK

    def note_strategy(self, strategy: Any) -> None:
        """Take in a strategy that may be in force from now on."""
        for number, name in enumerate(("cpuReclaimThresholdPercent", "memoryReclaimThresholdPercent")):
            self.reclaim[number] = max(self.reclaim[number], strategy[name])
        self.degrade = max(self.degrade, strategy["degradeTimeMinutes"] * 60.0)

    # Writes

    def check_write(self, event: WatchCacheEvent, *, actor: str) -> None:
        """Raise Violation for a write that breaks a rule."""
        name = event.object.key.name
        match event.object.key.collection:
            case NODES.label:
                self._check_node(event, name, actor)
            case NODE_METRICS.label:
                self._check_metric(event, name, actor)
            case PODS.label:
                pod = msgspec.json.decode(event.object.raw)
                if event.type is WatchEventType.DELETED:
                    self._cluster.pods.pop(pod["metadata"]["uid"], None)
                else:
                    self._cluster.pods[pod["metadata"]["uid"]] = pod
                self._observe_pod(pod, exists=event.type is not WatchEventType.DELETED)
            case CONFIG_MAPS.label:
                if actor in CONTROLLERS:
                    raise Violation(f"ConfigMap {name}: written by the controller")
                self._cluster.observe_config_map(event)
                for node in self._cluster.initial_state.nodes:
                    self._cause(node.name)

    def _check_node(self, event: WatchCacheEvent, name: str, actor: str) -> None:
        node = msgspec.json.decode(event.object.raw)
        before = msgspec.json.decode(event.previous.raw) if event.previous is not None else {}
        if (offered_before := nodes.published(before)) != nodes.published(node):
            self._offered_before[name].append((self._cluster.clock.now(), offered_before))
        if actor not in CONTROLLERS:
            self._cause(name)
            if event.type is WatchEventType.DELETED or nodes.published(before) != nodes.published(node):
                self.disturbed[name] = self._cluster.clock.now()
            return
        if event.type is WatchEventType.DELETED or event.previous is None:
            raise Violation(f"node {name}: {event.type} by the controller")
        if _without_batch(before) != _without_batch(node):
            raise Violation(f"node {name}: the controller changes more than batch resources")
        if _batch(before) == _batch(node):
            raise Violation(f"node {name}: the controller writes what is there already")
        self._check_amounts(name, node, before)
        self._count_write(f"node {name}", self._causes[name])

    def _check_amounts(self, name: str, node: Object, before: Object) -> None:
        offered = nodes.published(node)
        if offered != nodes.published(node, part="capacity"):
            raise Violation(
                f"node {name}: offers {offered}, and its capacity is {nodes.published(node, part='capacity')}"
            )
        least, most = self.held(name), self._most_held(name)
        machine = next(each for each in self._cluster.initial_state.nodes if each.name == name)
        whole = (machine.cpus * 1000, machine.gibibytes * 2**30)
        believed = self._cluster.clock.now() - self.fresh.get(name, float("-inf")) <= self.degrade + self.slack
        for number, resource in enumerate(BATCH):
            if offered[number] < least[number]:
                raise Violation(f"node {name}: {resource} {offered[number]}, and {least[number]} are held")
            share = -(-whole[number] * self.reclaim[number] // 100) if believed else 0
            limit = max(share, most[number], self._in_flight(name)[number])
            if offered[number] > limit:
                why = "of the capacity" if believed else "is held, and no measurement can be believed"
                raise Violation(f"node {name}: {resource} {offered[number]}, and no more than {limit} {why}")
        effects, earlier = self._cluster.effects, nodes.published(before)
        if any(one > other for one, other in zip(offered, earlier, strict=True)):
            effects["batch resources are offered"] += 1
        if any(one < other for one, other in zip(offered, earlier, strict=True)):
            effects["batch resources are reduced"] += 1
            if any(one == held > 0 for one, held in zip(offered, least, strict=True)):
                effects["batch resources are reduced to what is held"] += 1
            if offered == (0, 0):
                effects["batch resources are withdrawn"] += 1

    def _check_metric(self, event: WatchCacheEvent, name: str, actor: str) -> None:
        if actor in CONTROLLERS:
            metric = msgspec.json.decode(event.object.raw)
            before = msgspec.json.decode(event.previous.raw) if event.previous is not None else {}
            if metric.get("status") != before.get("status"):
                raise Violation(f"NodeMetric {name}: the controller changes the measurement")
            self._count_write(f"NodeMetric {name}", self._causes[name])
            return
        self._cause(name)
        if event.type is WatchEventType.DELETED:
            return
        if (at := self._cluster.believable(msgspec.json.decode(event.object.raw))) is not None:
            self.fresh[name] = max(at, self.fresh.get(name, at))

    def _observe_pod(self, pod: Object, *, exists: bool) -> None:
        node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if not node:
            return
        self._cause(node)
        if exists and nodes.has_started(pod) and not nodes.has_ended(pod):
            self._started.setdefault(uid, self._cluster.clock.now())
        else:
            self._started.pop(uid, None)
        now, history = self._cluster.clock.now(), self._held_before[node]
        history.append((now, *self._sum(node, since=now)))
        while len(history) > 1 and history[1][0] < now - 2 * FAULTY_SLACK:
            history.popleft()

    # What is held

    def held(self, node: str) -> nodes.Amounts:
        """Return what pods hold that were admitted before the slack, and have not ended."""
        return self._sum(node, since=self._cluster.clock.now() - self.slack)

    def _sum(self, node: str, *, since: float) -> nodes.Amounts:
        cpu = memory = 0
        for pod in nodes.pods_on(self._cluster, node):
            if self._started.get(pod["metadata"]["uid"], float("inf")) <= since:
                requested = nodes.batch_requests(pod)
                cpu, memory = cpu + requested[0], memory + requested[1]
        return cpu, memory

    def _most_held(self, node: str) -> nodes.Amounts:
        """Return the most that was held within the slack; the controller may not know yet that a pod has ended."""
        since, history = self._cluster.clock.now() - self.slack, [*self._held_before[node]]
        if not history:
            return 0, 0
        first = max(bisect_left([each[0] for each in history], since) - 1, 0)
        recent = history[first:]
        return max(each[1] for each in recent), max(each[2] for each in recent)

    def _in_flight(self, node: str) -> nodes.Amounts:
        """Return what pods request that are bound, admitted or not, up to what was offered while they may be bound."""
        now, offers = self._cluster.clock.now(), self._offered_before[node]
        while offers and offers[0][0] < now - BIND_HORIZON - FAULTY_SLACK:
            offers.popleft()
        recent = [amounts for until, amounts in offers if until >= now - BIND_HORIZON - self.slack]
        bound = [nodes.batch_requests(pod) for pod in nodes.pods_on(self._cluster, node)]
        cpu, memory = (
            min(sum(amounts[number] for amounts in bound), max((amounts[number] for amounts in recent), default=0))
            for number in (0, 1)
        )
        return cpu, memory

    def check_restart(self, name: str, node: Object) -> None:
        """Raise Violation if a kubelet that restarts would end a pod that it has admitted before."""
        now, offered = self._cluster.clock.now(), nodes.published(node)
        if now - self.disturbed.get(name, float("-inf")) <= self.slack or now < self.faults_until + FAULTY_SLACK:
            return
        held = self.held(name)
        if any(one < other for one, other in zip(offered, held, strict=True)):
            raise Violation(f"node {name}: its kubelet restarts, offers {offered}, and ends pods that hold {held}")

    # Writes in a time

    def _cause(self, node: str) -> None:
        self._causes[node].append(self._cluster.clock.now())

    def _count_write(self, what: str, causes: list[float]) -> None:
        now, writes = self._cluster.clock.now(), self._writes[what]
        writes.append(now)
        since = now - WINDOW
        recent = len(writes) - bisect_left(writes, since)
        reasons = len(causes) - bisect_left(causes, since - self.slack)
        if recent > WRITES_ALLOWED + WRITES_PER_CAUSE * reasons:
            raise Violation(f"{what}: {recent} writes in {WINDOW:g} s, and {reasons} causes")


def _batch(node: Object) -> list[Any]:
    status = node.get("status") or {}
    return [(status.get(part) or {}).get(name) for part in ("capacity", "allocatable") for name in BATCH]


def _without_batch(node: Object) -> Object:
    copied = msgspec.json.decode(msgspec.json.encode(node))
    for name in _IGNORED:
        copied["metadata"].pop(name, None)
    for part in ("capacity", "allocatable"):
        amounts = (copied.get("status") or {}).get(part) or {}
        for name in BATCH:
            amounts.pop(name, None)
    return copied
