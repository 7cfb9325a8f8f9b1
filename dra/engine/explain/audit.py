"""The invariants of the engine over a whole cluster: the same problems that `explain` tells of one object."""

from collections.abc import Iterator
from typing import Final

from dra.engine.explain import claims, pods, reservations
from dra.engine.explain.problems import Grade, Problem, Trouble, of_controller
from dra.engine.explain.scene import Scene
from dra.engine.reasons import named

_ORDER: Final = {grade: index for index, grade in enumerate(Grade)}

_WORK: Final = frozenset({Trouble.GATED, Trouble.NOT_ENTERED})
"""What a controller does at once."""

SKIPPED: Final = frozenset({Trouble.UNSCHEDULABLE, Trouble.NOT_TRIED, Trouble.NODE_NOT_READY})
"""Of pods that wait: nothing is wrong with a full cluster."""


def audit(scene: Scene) -> tuple[Problem, ...]:
    """Return all problems of claims, of the pods that use them, and of Reservations; the worst first."""
    found = dict.fromkeys(_found(scene))
    return tuple(sorted((*_without_controller(scene, found), *found), key=_by_grade))


def _without_controller(scene: Scene, found: dict[Problem, None]) -> Iterator[Problem]:
    """Take out what one controller would do at once, and tell of it as one problem.

    A thousand pods behind our gate are one thing to do: start the controller.
    """
    leader = scene.snapshot.leader
    work = [each for each in found if each.trouble in _WORK]
    if not work or not claims.orphaned(leader.presence):
        return
    for each in work:
        del found[each]
    pods_waiting = sum(each.trouble is Trouble.GATED for each in work)
    yield of_controller(
        Trouble.NO_CONTROLLER,
        lease=leader.name,
        presence=leader.presence.value,
        gated=pods_waiting,
        claims=len(work) - pods_waiting,
        objects=named(str(each.subject) for each in work),
    )


def _found(scene: Scene) -> Iterator[Problem]:
    for claim in scene.snapshot.claims:
        view = scene.view(claim.metadata.key)
        if view is not None:
            yield from claims.problems(scene, view)
    for key, pod in scene.pods.items():
        if pod.spec.resource_claims or pod.gates:
            yield from pods.standing(scene, key)
    for reservation in scene.snapshot.reservations or ():
        yield from reservations.problems(reservation)


def _by_grade(problem: Problem) -> tuple[int, str, tuple[str, str]]:
    return (_ORDER[problem.grade], problem.trouble, problem.subject.key)
