"""Make room for a pod that needs several devices of one node, when no node has so many free.

Eight cards may be free in a cluster, and no node has eight. This plugin chooses a node and the pods there whose cards
the waiting pod needs, so that moving them costs the least, and each of them has a place elsewhere at the same time;
each place is held before its pod goes. What is planned, and why, is the reason of each eviction.

Room is made for one waiting pod at a time. The plan is remembered until the pod has its node. A pod that would be
scheduled anyway is left alone: it fits somewhere, or will once pods have left that are leaving already.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from dra.api.descheduler.device_plugin_args import DeviceDefragmentationArgs
from dra.engine.descheduling.device_room import DeviceRoom, DeviceRoomSearch
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.model.meta import Uid

WAITING_PODS_MAX: Final = 16
"""Maximum waiting pods for which a round searches room; the most important ones come first."""

CHOICES_MAX: Final = 32
"""Maximum choices of pods that are examined for one waiting pod."""

JOBS_GRACE_SECONDS: Final = 120
"""Seconds within which the migrations of a plan must have begun."""

SCHEDULING_SECONDS: Final = 300
"""Seconds within which the waiting pod must be scheduled once the others have left."""

FAILURES_MAX: Final = 64
"""Maximum waiting pods of which a failed plan is remembered."""

_PLAN, _FAILED = "plan", "failed"


class DeviceDefragmentation:
    """Moves the pods whose devices a waiting pod needs."""

    name = "DeviceDefragmentation"
    Args = DeviceDefragmentationArgs

    def balance(self, snapshot: Snapshot, args: DeviceDefragmentationArgs) -> Proposals:
        """Yield the pods to move for one waiting pod."""
        memory = snapshot.own_memory
        if text := _unfinished_plan(snapshot, memory):
            return text
        failed: dict[Uid, float] = memory.get(_FAILED, {})
        texts: list[str] = []
        for waiting in _waiting_pods(snapshot, args):
            since = failed.get(waiting.metadata.uid)
            if since is not None and snapshot.now - since < args.retry_after_seconds:
                continue
            if text := _schedulable_reason(snapshot, waiting):
                texts.append(text)
                continue
            room, text = yield from self._find_room(snapshot, waiting, args)
            if room is not None:
                return (yield from self._make_room(snapshot, waiting, room))
            texts.append(text)
        return "; ".join(texts[:WAITING_PODS_MAX]) or None

    def _find_room(self, snapshot: Snapshot, waiting: DeschedulingPod, args: DeviceDefragmentationArgs) -> Any:  # noqa: ANN401 - a generator of Evict that returns the room and a text
        """Return the cheapest room whose pods may be moved and have places elsewhere, or why there is none.

        Only where places are held first, pods as important as the waiting one may move: they are certain to fit.
        """
        only_below = None if snapshot.holds_places else waiting.spec.priority
        search = DeviceRoomSearch(snapshot, waiting, pods_max=args.max_pods_to_move, only_below=only_below)
        reasons: list[str] = []
        for number, room in enumerate(search.choices()):
            if number >= CHOICES_MAX:
                break
            if not search.refused.isdisjoint(pod.metadata.uid for pod in room.pods):
                continue
            if not snapshot.places(room.pods):
                reasons.append(f"node {room.node}: {_names(room.pods)} would not find other places")
                continue
            for pod in room.pods:
                verdict = yield Evict(pod, _reason(snapshot, waiting, room), insists_on_place=True, only_asks=True)
                if not verdict.accepted:
                    search.refused.add(pod.metadata.uid)
                    reasons.append(verdict.message)
                    break
            else:
                return room, ""
        why = "; ".join(reasons[:3]) or "no node would have enough devices"
        more = ", and the search was ended" if search.gave_up else ""
        return None, f"{_name(waiting)}: no room can be made: {why}{more}"

    def _make_room(self, snapshot: Snapshot, waiting: DeschedulingPod, room: DeviceRoom) -> Proposals:
        reason = _reason(snapshot, waiting, room)
        moving: list[Uid] = []
        for pod in room.pods:
            verdict = yield Evict(pod, reason, insists_on_place=True)
            if not verdict.accepted:
                return f"{_name(waiting)}: node {room.node} will not be free: {verdict.message}"
            moving.append(pod.metadata.uid)
            snapshot.own_memory[_PLAN] = {
                "pod": waiting.metadata.uid,
                "node": room.node,
                "moving": tuple(moving),
                "since": snapshot.now,
            }
        return f"{_name(waiting)}: {_names(room.pods)} leave node {room.node} for it"


def _waiting_pods(snapshot: Snapshot, args: DeviceDefragmentationArgs) -> list[DeschedulingPod]:
    """Return the pods for which room may be made, the most important first, then the oldest."""
    selector = args.label_selector
    waiting = [
        pod
        for pod in snapshot.pods()
        if _waits_for_a_node(pod)
        and args.namespaces.selects(pod.metadata.namespace)
        and (selector is None or selector.selects(pod.metadata.labels or {}))
        and snapshot.age(pod) >= args.min_pending_seconds
        and _needs_many(snapshot.requested_devices(pod), args.min_devices)
    ]
    waiting.sort(key=lambda pod: (-pod.spec.priority, -snapshot.age(pod), pod.metadata.key))
    return waiting[:WAITING_PODS_MAX]


def _waits_for_a_node(pod: DeschedulingPod) -> bool:
    """Return whether the scheduler has found no node for a pod, and nobody makes room for it already."""
    if pod.spec.node_name or pod.terminal or pod.metadata.deleting or pod.gates or pod.status.nominated_node_name:
        return False
    scheduled = pod.condition("PodScheduled")
    return bool(pod.spec.resource_claims) and scheduled is not None and scheduled.reason == "Unschedulable"


def _needs_many(devices: int | None, least: int) -> bool:
    return devices is None or devices >= least


def _schedulable_reason(snapshot: Snapshot, waiting: DeschedulingPod) -> str:
    """Return where a pod would be scheduled without help; empty if it would not be."""
    if node := snapshot.fitting_node(waiting):
        return f"{_name(waiting)}: fits on node {node} already"
    for node, leaving in _leaving_pods(snapshot):
        if not snapshot.unfit_reason(waiting, node, gone=leaving):
            return f"{_name(waiting)}: fits on node {node} once pods have left that are leaving already"
    return ""


def _leaving_pods(snapshot: Snapshot) -> Iterator[tuple[str, list[Uid]]]:
    """Yield the nodes from which pods with devices leave, with these pods."""
    leaving: dict[str, list[Uid]] = {}
    for pod in snapshot.objects.pods:
        uid, node = pod.metadata.uid, pod.spec.node_name
        if node and (pod.metadata.deleting or uid in snapshot.moved) and snapshot.held_devices(pod):
            leaving.setdefault(node, []).append(uid)
    yield from sorted(leaving.items())


def _unfinished_plan(snapshot: Snapshot, memory: dict[str, Any]) -> str:
    """Return what the plan of an earlier round waits for; forget a plan that is done or has failed."""
    plan = memory.get(_PLAN)
    if plan is None:
        return ""
    waiting, node = snapshot.pod(plan["pod"]), plan["node"]
    if waiting is None or waiting.spec.node_name or waiting.terminal:
        del memory[_PLAN]
        return ""
    there = [pod for uid in plan["moving"] if (pod := snapshot.pod(uid)) is not None and pod.spec.node_name == node]
    there = [pod for pod in there if not pod.terminal]
    if any(pod.metadata.uid in snapshot.moved or pod.metadata.deleting for pod in there):
        return f"{_name(waiting)}: waits until {_names(there)} have left node {node}"
    if there:
        text, deadline = f"{_names(there)} are to leave node {node}", plan["since"] + JOBS_GRACE_SECONDS
    else:
        text, deadline = (
            f"is to be scheduled to node {node}",
            plan.setdefault("free", snapshot.now) + SCHEDULING_SECONDS,
        )
    if snapshot.now < deadline:
        return f"{_name(waiting)}: {text}"
    failed = memory.setdefault(_FAILED, {})
    while len(failed) >= FAILURES_MAX:
        del failed[next(iter(failed))]
    failed[waiting.metadata.uid] = snapshot.now
    del memory[_PLAN]
    return ""


def _reason(snapshot: Snapshot, waiting: DeschedulingPod, room: DeviceRoom) -> str:
    """Return the whole plan, as the reason for each of its evictions."""
    wanted, free, cost = snapshot.requested_devices(waiting), snapshot.free_devices(room.node), room.cost
    needs = "all devices of a node" if wanted is None else f"{wanted} devices of one node"
    pods = f"{cost.pods} {'pod' if cost.pods == 1 else 'pods'}"
    return (
        f"makes room for {_name(waiting)}, which needs {needs}: node {room.node} has {free} free, and moving "
        f"{_names(room.pods)} costs the least (eviction cost {cost.eviction_cost}, highest priority {cost.priority}, "
        f"{pods})"
    )


def _name(pod: DeschedulingPod) -> str:
    return f"pod {'/'.join(pod.metadata.key)}"


def _names(pods: Iterable[DeschedulingPod]) -> str:
    return ", ".join("/".join(pod.metadata.key) for pod in pods)
