"""The invariants of the engine over a whole cluster: the same problems that `explain` tells of one object."""

from collections.abc import Iterator
from typing import Final

from dra.engine.explain import claims, pods
from dra.engine.explain.problems import Grade, Problem, Trouble
from dra.engine.explain.scene import Scene

_ORDER: Final = {grade: index for index, grade in enumerate(Grade)}

SKIPPED: Final = frozenset({Trouble.UNSCHEDULABLE, Trouble.NOT_TRIED, Trouble.NODE_NOT_READY})
"""Of pods that wait: nothing is wrong with a full cluster."""


def audit(scene: Scene) -> tuple[Problem, ...]:
    """Return all problems of all claims and of the pods that use them, the worst first."""
    return tuple(sorted(dict.fromkeys(_found(scene)), key=_by_grade))


def _found(scene: Scene) -> Iterator[Problem]:
    for claim in scene.snapshot.claims:
        view = scene.view(claim.metadata.key)
        if view is not None:
            yield from claims.problems(scene, view)
    for key, pod in scene.pods.items():
        if pod.spec.resource_claims or pod.gates:
            yield from pods.standing(scene, key)


def _by_grade(problem: Problem) -> tuple[int, str, tuple[str, str]]:
    return (_ORDER[problem.grade], problem.trouble, problem.subject.key)
