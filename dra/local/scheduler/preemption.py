"""Who would have to leave for a pod that no node has room for; in upstream's order (DefaultPreemption).

1. Asked is a pod that may make others leave (``preemptionPolicy``), and none of whose victims is on its way out yet.
2. Of each node that the pod is suited for, all pods of lower priority are thought away. If it does not fit even then,
   nobody leaves. Else they are let back as long as it fits: first those whose end would go against a
   PodDisruptionBudget, then the others, each time the most important first: by priority, then by age.
3. Devices are no reason to make anybody leave. What the victims' claims hold counts as held: upstream's plugin for
   claims does not take part in thinking pods away.
4. The node is the one with the fewest violations of budgets; then that whose most important victim is the least
   important; then with the smallest sum of priorities, the fewest victims, and the youngest of the most important.

Budgets do not forbid anything: they are gone against where nothing else helps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, TypeAlias

from dra.engine.allocate import Refusal
from dra.engine.fit import Demand, Room, lacks, unsuited
from dra.local.scheduler.cluster import Cluster
from dra.local.scheduler.cycle import ENOUGH, Claims, gather, reaches
from dra.local.scheduler.queue import Entry
from dra.model.meta import Uid
from dra.model.placement import PlacedPod
from dra.model.pods import DISRUPTION_TARGET
from dra.model.preemption import NEVER, PodDisruptionBudget

BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Why a pod is being ended, as its condition says: for another one."""

_OFFSET: Final = 2**31
"""Upstream's, added to each priority: so that negative ones add up, too."""

_NOW: Final = "~"
"""When a pod began that has not: later than any timestamp."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A node, and who would leave it."""

    node: str
    victims: tuple[PlacedPod, ...]
    """The most important first."""

    violating: frozenset[Uid] = frozenset()
    """Those whose end goes against a budget."""


Veto: TypeAlias = Callable[[PlacedPod, Sequence[Eviction]], Sequence[Eviction]]
"""What an extender makes of the choice: others may leave, or nobody on that node."""


def preempt(
    entry: Entry,
    cluster: Cluster,
    *,
    pods: Mapping[Uid, PlacedPod],
    budgets: Sequence[PodDisruptionBudget] = (),
    start: int = 0,
    veto: Veto | None = None,
) -> Eviction | None:
    """Return whom a pod that no node will do for would make leave; None: nobody.

    `pods` are those in rooms; the search for nodes begins with the one of number `start`.
    """
    found = candidates(entry, cluster, pods=pods, budgets=budgets, start=start)
    if found and veto is not None:
        found = list(veto(entry.pod, found))
    return min(found, key=cost, default=None)


def candidates(
    entry: Entry,
    cluster: Cluster,
    *,
    pods: Mapping[Uid, PlacedPod],
    budgets: Sequence[PodDisruptionBudget] = (),
    start: int = 0,
) -> list[Eviction]:
    """Return for each node that this would help who would leave it."""
    pod = entry.pod
    if pod.spec.preemption_policy == NEVER or _under_way(pod, cluster, pods):
        return []
    claims = gather(entry, cluster)
    if not isinstance(claims, Claims):
        return []
    rooms = cluster.rooms
    first = start % len(rooms) if rooms else 0
    found: list[Eviction] = []
    for room in (*rooms[first:], *rooms[:first]):
        there = [pods[uid] for uid in room.pods if uid in pods]
        eviction = _on(room, entry.demand, there, budgets)
        if eviction is not None and _usable(room, claims, cluster):
            found.append(eviction)
            if len(found) >= ENOUGH and any(not each.violating for each in found):
                break
    return found


def importance(pod: PlacedPod) -> tuple[int, str]:
    """Return what pods are sorted by, the most important first."""
    return (-pod.spec.priority, pod.status.start_time or _NOW)


def _under_way(pod: PlacedPod, cluster: Cluster, pods: Mapping[Uid, PlacedPod]) -> bool:
    """Whether others are leaving for it already, on the node that it is to get."""
    room = cluster.room(pod.status.nominated_node_name)
    if room is None:
        return False
    there = (pods[uid] for uid in room.pods if uid in pods)
    return any(each.spec.priority < pod.spec.priority and _leaving(each) for each in there)


def _leaving(pod: PlacedPod) -> bool:
    condition = pod.condition(DISRUPTION_TARGET)
    named = condition is not None and (condition.status, condition.reason) == ("True", BY_SCHEDULER)
    return pod.metadata.deleting and named


def _on(
    room: Room, demand: Demand, there: Iterable[PlacedPod], budgets: Sequence[PodDisruptionBudget]
) -> Eviction | None:
    """Return who would leave a node; None if that is of no use, or of no need."""
    if unsuited(room, demand) is not None or not lacks(room, demand):
        return None
    lower = sorted((each for each in there if each.spec.priority < demand.pod.spec.priority), key=importance)
    bare = _copied(room)
    amounts = {each.metadata.uid: room.pods[each.metadata.uid] for each in lower}
    for uid in amounts:
        bare.remove(uid)
    if not lower or lacks(bare, demand):
        return None
    violating = _violating(lower, budgets)
    victims = []
    for each in sorted(lower, key=lambda pod: pod.metadata.uid not in violating):
        uid = each.metadata.uid
        bare.add(uid, amounts[uid])
        if lacks(bare, demand):
            bare.remove(uid)
            victims.append(each)
    uids = {each.metadata.uid for each in victims}
    return Eviction(room.name, tuple(sorted(victims, key=importance)), frozenset(violating & uids))


def _copied(room: Room) -> Room:
    found = copy(room)
    found.pods, found.used = dict(room.pods), dict(room.used)
    return found


def _violating(lower: Iterable[PlacedPod], budgets: Sequence[PodDisruptionBudget]) -> set[Uid]:
    left = [each.status.disruptions_allowed for each in budgets]
    found = set()
    for pod in lower:
        for number, budget in enumerate(budgets):
            if budget.about(pod.metadata):
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.metadata.uid)
    return found


def _usable(room: Room, claims: Claims, cluster: Cluster) -> bool:
    """Whether a node has the pod's devices as things stand."""
    if not all(reaches(each, room) for each in claims.placed):
        return False
    if not claims.wanted:
        return True
    wanted = [each for _, each in claims.wanted]
    return not isinstance(cluster.allocate(wanted, room), Refusal)


class _Later(str):
    """Sorts the later before the earlier."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str(self) > str(other)


def cost(found: Eviction) -> tuple[int, int, int, int, _Later]:
    """Return what speaks against it: the smallest is chosen."""
    highest = found.victims[0].spec.priority
    total = sum(each.spec.priority + _OFFSET for each in found.victims)
    began = min(each.status.start_time or _NOW for each in found.victims if each.spec.priority == highest)
    return (len(found.violating), highest, total, len(found.victims), _Later(began))
