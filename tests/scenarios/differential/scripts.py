"""From a seed to a script, in swarm style: each seed has its own likes, so that rare things meet often somewhere."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.scenarios.differential import operations as ops
from tests.scenarios.differential.draft import CLAIMS, NODES, PODS, Draft
from tests.scenarios.differential.operations import Content, Stranger, Way

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.differential.operations import Operation, Round, Script

    Idea: TypeAlias = Callable[[Draft], Operation | Round | None]

LIKES: Final = (0, 1, 1, 4)
"""How much a seed likes an idea, times the idea's own weight."""

ROUNDS: Final = range(8, 13)
TOGETHER: Final = 0.2
"""How often a round does two things at once, provided that they are about different objects.

What becomes of things done to one object in a row depends on who is faster, with stock as with ours.
"""

UNSEEN: Final = 0.1
"""How often a script ends with an entry of a pod that nobody has ever seen: ours keeps it for minutes."""


def write(seed: int, *, templates: bool = True) -> Script:
    """Return the script of a seed."""
    draft = Draft(random.Random(seed), templates)  # noqa: S311 reproducible, not secret
    ideas = {idea: weight * draft.chance.choice(LIKES) for idea, weight in IDEAS.items()}
    ideas = {**ideas, a_pod: 4, a_schedule: 8}  # without these nothing happens
    script = [_things(draft), _users(draft)]
    for _ in range(draft.chance.choice(ROUNDS)):
        script.append(_next(draft, ideas))
        if draft.chance.random() < TOGETHER:
            another = _next(draft, ideas)
            apart = draft.concerns(script[-1]).isdisjoint(draft.concerns(another))
            script[-1:] = [script[-1] + another] if apart else [script[-1], another]
    if draft.chance.random() < UNSEEN:
        script.append(_noted(draft, (an_unseen_pod(draft),)))
    return tuple(script)


def _things(draft: Draft) -> Round:
    claims = [ops.CreateClaim(name) for name in draft.chance.sample(CLAIMS, k=draft.chance.randint(1, 2))]
    kinds = draft.chance.sample(list(Content), k=draft.chance.randint(0, 3)) if draft.templates_too else []
    return _noted(draft, (*claims, *(ops.CreateTemplate(kind.value, kind) for kind in kinds)))


def _users(draft: Draft) -> Round:
    names = draft.chance.sample(PODS, k=draft.chance.randint(1, 2))
    return _noted(draft, tuple(ops.CreatePod(name, draft.wants()) for name in names))


def _noted(draft: Draft, operations: Round) -> Round:
    for operation in operations:
        draft.note(operation)
    return operations


def _next(draft: Draft, ideas: dict[Idea, int]) -> Round:
    while True:
        (idea,) = draft.chance.choices(list(ideas), weights=list(ideas.values()))
        found = idea(draft)
        if found is not None:
            return _noted(draft, found if isinstance(found, tuple) else (found,))


# Users:


def a_pod(draft: Draft, *, node: str = "", held: bool = False) -> Operation | None:
    """A pod of a name that is free."""
    free = [name for name in PODS if name not in draft.pods]
    return ops.CreatePod(draft.chance.choice(free), draft.wants(), node, held=held) if free else None


def a_bound_pod(draft: Draft) -> Operation | None:
    """A pod that is born on a node, as those of DaemonSets and static pods were."""
    return a_pod(draft, node=draft.chance.choice(NODES))


def a_held_pod(draft: Draft) -> Operation | None:
    """A pod that outlives its deletion."""
    return a_pod(draft, held=True)


def a_forced_deletion(draft: Draft) -> Operation | None:
    """A pod is gone at once."""
    pods = [name for name in draft.pods if draft.may_go(name)]
    return ops.DeletePod(draft.chance.choice(pods), Way.FORCED) if pods else None


def a_deletion(draft: Draft) -> Operation | None:
    """A pod is asked to go."""
    return ops.DeletePod(draft.chance.choice(list(draft.pods))) if draft.pods else None


def a_release(draft: Draft) -> Operation | None:
    """A held pod may go."""
    held = [pod.name for pod in draft.pods.values() if pod.held and draft.may_go(pod.name)]
    return ops.LetGo(draft.chance.choice(held)) if held else None


def a_replacement(draft: Draft) -> Round | None:
    """A pod of the same name, as StatefulSets make them; not born bound, or stock may free the claim under it."""
    pods = [pod for pod in draft.pods.values() if draft.may_go(pod.name)]
    if not pods:
        return None
    old = draft.chance.choice(pods)
    return (ops.DeletePod(old.name, Way.FORCED), ops.CreatePod(old.name, old.wants))


def a_claim(draft: Draft) -> Operation:
    """A claim, perhaps of a name that pods wait for."""
    return ops.CreateClaim(draft.claim_name(free=True))


def a_claim_deletion(draft: Draft) -> Operation:
    """A claim is to go, a generated one perhaps."""
    return ops.DeleteClaim(draft.claim())


def a_claim_replacement(draft: Draft) -> Round | None:
    """A claim of the same name at once, where nothing holds the one before."""
    name = draft.claim_name()
    return None if name in draft.protected else (ops.DeleteClaim(ops.Named(name)), ops.CreateClaim(name))


def a_template(draft: Draft) -> Operation | None:
    """A template, perhaps one that pods wait for."""
    missing = [kind for kind in Content if kind.value not in draft.templates]
    kind = draft.chance.choice(missing or list(Content))
    return ops.CreateTemplate(kind.value, kind) if draft.templates_too else None


def a_template_deletion(draft: Draft) -> Operation | None:
    """A template is gone."""
    return ops.DeleteTemplate(draft.chance.choice(sorted(draft.templates))) if draft.templates else None


def a_pointer_elsewhere(draft: Draft) -> Operation | None:
    """A pod's status names a claim of somebody else."""
    entries = _generating(draft)
    return ops.PointElsewhere(*draft.chance.choice(entries), draft.chance.choice(CLAIMS)) if entries else None


def an_orphan(draft: Draft) -> Operation | None:
    """A generated claim that nobody has recorded."""
    entries = _generating(draft)
    return ops.Orphan(*draft.chance.choice(entries)) if entries else None


def _generating(draft: Draft) -> list[tuple[str, str]]:
    return [(pod.name, want.entry) for pod in draft.pods.values() for want in pod.wants if want.template]


# Schedulers:


def a_schedule(draft: Draft) -> Operation | None:
    """A pod is scheduled as it should be."""
    pod = draft.pod(bound=False)
    return ops.Schedule(pod, draft.chance.choice(NODES)) if pod else None


def a_bind(draft: Draft) -> Operation | None:
    """A pod is bound, whatever its claims are like."""
    pod = draft.pod(bound=False)
    return ops.Bind(pod, draft.chance.choice(NODES)) if pod else None


def an_allocation(draft: Draft) -> Operation:
    """A claim is allocated, for one pod mostly."""
    claim = draft.claim()
    pod = draft.user_of(claim)
    return ops.Allocate(claim, (pod,) if pod and draft.sensible() else ())


def a_protection(draft: Draft) -> Operation:
    """The scheduler gets no further than the finalizer."""
    return ops.Protect(draft.claim())


def a_listing(draft: Draft) -> Operation | None:
    """A pod is listed."""
    claim = draft.claim()
    pod = draft.user_of(claim)
    return ops.List(claim, pod) if pod else None


def a_stranger(draft: Draft) -> Operation:
    """Somebody else is listed who is no pod."""
    return ops.ListStranger(draft.claim(), Stranger.FOREIGN, draft.chance.choice((*PODS, "dam")))


def an_unseen_pod(draft: Draft) -> Operation:
    """A pod is listed that neither controller has ever seen."""
    kind = draft.chance.choice((Stranger.UNKNOWN_POD, Stranger.FORMER_POD))
    return ops.ListStranger(draft.claim(), kind, draft.chance.choice((*PODS, "dam")))


def an_unlisting(draft: Draft) -> Operation:
    """An entry goes."""
    claim = draft.claim()
    return ops.Unlist(claim, draft.user_of(claim) or "dam" if draft.sensible() else "dam")


def an_extended_resource(draft: Draft) -> Round | None:
    """A pod with an extended resource gets the claim for it and is bound."""
    free = [name for name in PODS if name not in draft.pods]
    if not free:
        return None
    name = draft.chance.choice(free)
    wants = draft.wants() if draft.sensible() else ()
    return (ops.CreatePod(name, wants, extended=True), ops.ExtendedClaim(name), ops.Bind(name, "n1"))


# Kubelets and nodes:


def a_start(draft: Draft) -> Operation | None:
    """A bound pod runs."""
    pod = draft.pod(bound=True)
    return ops.Run(pod) if pod else None


def a_lost_sandbox(draft: Draft) -> Operation | None:
    """A bound pod has to start again."""
    pod = draft.pod(bound=True)
    return ops.LoseSandbox(pod) if pod else None


def an_end(draft: Draft) -> Operation | None:
    """A pod ends and stays."""
    pod = draft.pod(bound=True) if draft.sensible() else draft.pod()
    return ops.Finish(pod, draft.chance.choice(("Succeeded", "Failed"))) if pod else None


def an_end_and_deletion(draft: Draft) -> Round | None:
    """A pod is asked to go, and does: stock settles then, since it leaves alone what is being deleted."""
    pod = draft.pod(bound=True)
    return (ops.DeletePod(pod), ops.Finish(pod)) if pod else None


def a_node_event(draft: Draft) -> Operation:
    """Something happens to a node."""
    kinds = (ops.CreateNode, ops.Cordon, ops.DeleteNode) if draft.nodes else (ops.CreateNode,)
    return draft.chance.choice(kinds)(draft.chance.choice(NODES))


IDEAS: Final[dict[Idea, int]] = {
    a_bound_pod: 2,
    a_held_pod: 1,
    a_forced_deletion: 2,
    a_deletion: 2,
    a_release: 1,
    a_replacement: 1,
    a_claim: 2,
    a_claim_deletion: 2,
    a_claim_replacement: 1,
    a_template: 2,
    a_template_deletion: 1,
    a_pointer_elsewhere: 1,
    an_orphan: 1,
    a_bind: 1,
    an_allocation: 2,
    a_protection: 1,
    a_listing: 1,
    a_stranger: 1,
    an_unlisting: 1,
    an_extended_resource: 1,
    a_start: 2,
    a_lost_sandbox: 1,
    an_end: 1,
    an_end_and_deletion: 2,
    a_node_event: 1,
}
