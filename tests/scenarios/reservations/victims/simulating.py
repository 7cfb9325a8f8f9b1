"""What `kubectl dra simulate` says of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dra.cli.kubectl.simulate.simulated_manifests import parse_manifests, with_priority
from dra.cli.kubectl.simulate.simulation import simulate_scheduling
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.meta import ObjectMeta, UnstructuredObject
from dra.model.preemption import PodDisruptionBudget, PriorityClass
from dra.model.scheduling import SchedulerNode, SchedulerPod
from tests.scenarios.reservations.victims.cases import PRIORITIES, Side
from tests.scenarios.reservations.victims.outcomes import NOBODY, Outcome

if TYPE_CHECKING:
    from tests.scenarios.reservations.victims.cases import VictimCase

Json = dict[str, Any]


def simulate(case: VictimCase, side: Side) -> Outcome:
    """Return the node and the victims of a case."""
    by_kind: dict[str, list[Json]] = {"Node": [], "PodDisruptionBudget": [], "Reservation": []}
    for each in case.objects(side):
        by_kind[each["kind"]].append(each)
    classes = tuple(PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in PRIORITIES.items())
    pods = [msgspec.convert(each, SchedulerPod) for each in case.pods(side)]
    snapshot = Snapshot(
        taken="2026-11-20T12:00:00Z",
        server="v1.37.2",
        nodes=msgspec.convert(tuple(by_kind["Node"]), tuple[SchedulerNode, ...]),
        pods=tuple(with_priority(pod, pod.spec.priority_class_name, classes) for pod in pods),
        budgets=msgspec.convert(tuple(by_kind["PodDisruptionBudget"]), tuple[PodDisruptionBudget, ...]),
        priorities=classes,
        reservations=tuple(_reservation(each) for each in by_kind["Reservation"]),
    )
    manifests = parse_manifests([case.urgent(side)], namespace=side.value)
    manifests.pods = [with_priority(pod, "urgent", classes) for pod in manifests.pods]
    (found,) = (each for each in simulate_scheduling(snapshot, manifests).outcomes if each.is_from_manifests)
    if not found.victims:
        return NOBODY
    index = [case.node(side, number) for number in range(len(case.machines))].index(found.node)
    return Outcome(node=index, victims=sorted(each.metadata.name for each in found.victims))


def _reservation(content: Json) -> UnstructuredObject:
    metadata = content["metadata"] | {"uid": content["metadata"]["name"], "resourceVersion": "1"}
    return UnstructuredObject(metadata=msgspec.convert(metadata, ObjectMeta), content=content | {"metadata": metadata})
