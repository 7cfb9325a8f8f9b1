"""Judges whom a scheduler ended against what `kubectl dra simulate` said.

kube-scheduler lets potential victims back in the order of priority and start time (`util.MoreImportantPod`), and
``status.startTime`` has whole seconds. The order among pods of one priority and one second is that of its node cache,
which the API does not show. That order decides which of them end, how many, and how many ends go against a
PodDisruptionBudget: of two equal pods the bigger one may be let back first, and then two others have to go. So each
order that the scheduler may have used is asked about.
"""

from __future__ import annotations

from itertools import groupby, permutations, product
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.engine.kube_scheduler.preemption import PreemptionCandidate, candidate_cost
from dra.engine.kube_scheduler.victims import PotentialVictim
from tests.scenarios import simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dra.cli.kubectl.simulate.simulation import PodOutcome
    from dra.engine.diagnosis.snapshot import Snapshot
    from dra.model.scheduling import SchedulerPod

SECOND: Final = len("2026-11-20T10:00:00Z")


def difference(
    snapshot: Snapshot, manifest: dict[str, Any], namespace: str, said: PodOutcome, node: str, ended: set[str]
) -> str | None:
    """Return what was otherwise than said, for reasons other than chance; None if nothing was.

    `node` is where the pod of the manifest came to, "" for none; `ended` names the pods that were ended for it.
    """
    if (said.node, _victims(said)) == (node, ended):
        return None
    told = (
        f"said {said.node or said.reason!r}, ending {sorted(_victims(said))}; is on {node or 'no node'}, "
        f"ended {sorted(ended)}"
    )
    if bool(said.node) != bool(node) or bool(said.victims) != bool(ended):
        return told
    here = [each for each in _outcomes(snapshot, manifest, namespace, node) if each.node and _victims(each) == ended]
    if not here:
        return f"{told}; which could not be"
    if not ended:
        return None
    best = min(map(_cost, here))
    for other in snapshot.nodes:
        found = [_cost(each) for each in _outcomes(snapshot, manifest, namespace, other.metadata.name) if each.victims]
        if found and max(found) < best:
            return f"{told}; which is not as good as {other.metadata.name}: {best}, {max(found)}"
    return None


def orders(pods: tuple[SchedulerPod, ...]) -> Iterator[tuple[SchedulerPod, ...]]:
    """Yield the pods with every order among those of one priority that began in the same second."""
    alike = [tuple(group) for _, group in groupby(sorted(pods, key=_importance), key=_importance)]
    for each in product(*map(permutations, alike)):
        yield tuple(_numbered(pod, number) for group in each for number, pod in enumerate(group))


def _importance(pod: SchedulerPod) -> tuple[int, str]:
    return PotentialVictim.from_pod(pod).importance


def _outcomes(snapshot: Snapshot, manifest: dict[str, Any], namespace: str, node: str) -> Iterator[PodOutcome]:
    """Yield what may become of a pod that can have this node alone."""
    there = tuple(each for each in snapshot.pods if each.spec.node_name == node)
    others = tuple(each for each in snapshot.pods if each.spec.node_name != node)
    for order in orders(there):
        found = msgspec.structs.replace(snapshot, pods=(*others, *order))
        yield simulated.simulate_pod(simulated.only(found, node), manifest, namespace=namespace)


def _numbered(pod: SchedulerPod, number: int) -> SchedulerPod:
    began = pod.status.start_time
    if not began:
        return pod
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, start_time=f"{began}{number:03d}"))


def _victims(outcome: PodOutcome) -> set[str]:
    return {each.metadata.name for each in outcome.victims}


def _cost(outcome: PodOutcome) -> tuple[Any, ...]:
    *numbers, began = candidate_cost(PreemptionCandidate(outcome.node, outcome.victims, outcome.pdb_violations))
    return (*numbers, type(began)(str(began)[:SECOND]))
