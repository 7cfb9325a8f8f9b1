"""What is to be said of one pod: what it has, or what it waits for and what would help."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from dra.engine.allocate import UnsatisfiableError, Wanted, prepare
from dra.engine.consumers import GATE, Consumer, Stage, stage_of
from dra.engine.explain import annotations, claims
from dra.engine.explain.claims import ClaimFacts
from dra.engine.explain.places import Barrier, Devices, NodeGroup, Obstacle, groups
from dra.engine.explain.problems import Grade, Problem, Trouble, of_pod
from dra.engine.explain.scene import Scene
from dra.engine.explain.snapshot import Presence
from dra.engine.fit import Demand
from dra.model import pods as model
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.placement import PlacedPod


class Way(StrEnum):
    """What would let a pod be scheduled."""

    UNCORDON = "uncordon"
    UNTAINT = "untaint"
    LABEL = "label"
    WAIT = "wait"  # for a claim to be released
    TOLERATE = "tolerate"  # taints of devices, in the request
    NONE = "none"


class Advice(Struct, frozen=True):
    """The shortest way found."""

    way: Way = Way.NONE
    node: str = ""
    detail: str = ""
    claim: str = ""
    """NAMESPACE/NAME."""


class PodFacts(Struct, frozen=True):
    """All that is to be said of a pod."""

    key: Key
    uid: Uid
    stage: str
    node: str = ""
    gates: tuple[str, ...] = ()
    claims: tuple[ClaimFacts, ...] = ()
    message: str = ""
    """The scheduler's own words."""

    groups: tuple[NodeGroup, ...] = ()
    holders: tuple[ClaimFacts, ...] = ()
    """The claims that the groups name."""

    advice: Advice = Advice()
    problems: tuple[Problem, ...] = ()


_OF_LEAKS: Final = frozenset({Grade.LEAK, Grade.ERROR})


def explain(scene: Scene, key: Key) -> PodFacts | None:
    """Return what is to be said of a pod; None if there is none."""
    pod = scene.pods.get(key)
    if pod is None:
        return None
    consumer = scene.world.consumer(pod.metadata.uid)
    stage = consumer.stage if consumer is not None else stage_of(pod, started=_sandboxed(pod))
    told = [claims.explain(scene, (key[0], name)) for name in model.claim_names(pod)]
    condition = pod.condition(model.SCHEDULED)
    message = condition.message if condition is not None and condition.status == "False" else ""
    own = [each for each in told if each is not None]
    places: tuple[NodeGroup, ...] = ()
    holders: tuple[ClaimFacts, ...] = ()
    advice = Advice()
    found = list(_own_problems(scene, pod, stage, consumer))
    if stage is Stage.WAITING:
        places, unsatisfied = _places(scene, pod)
        found += unsatisfied
        holders = _holders(scene, places, own)
        advice = _advice(places, holders)
        found += list(_unscheduled(pod, places, message, missing=bool(found)))
    related = [p for each in own for p in each.problems if _concerns(p, pod, stage)]
    leaks = [p for each in holders for p in each.problems if p.grade in _OF_LEAKS]
    return PodFacts(
        key=key,
        uid=pod.metadata.uid,
        stage=stage.name.lower(),
        node=pod.spec.node_name,
        gates=pod.gates,
        claims=tuple(own),
        message=message,
        groups=places,
        holders=holders,
        advice=advice,
        problems=tuple(dict.fromkeys((*related, *leaks, *found))),
    )


def standing(scene: Scene, key: Key) -> Iterator[Problem]:
    """Yield what is wrong with a pod, whatever the nodes are like."""
    pod = scene.pods[key]
    consumer = scene.world.consumer(pod.metadata.uid)
    if consumer is not None:
        yield from _own_problems(scene, pod, consumer.stage, consumer)


def _sandboxed(pod: PlacedPod) -> bool:
    condition = pod.condition(model.READY_TO_START)
    return condition is not None and condition.status == "True"


def _concerns(problem: Problem, pod: PlacedPod, stage: Stage) -> bool:
    """Whether a problem of one of its claims matters to a pod."""
    if problem.subject.kind == "Pod":
        return problem.subject.uid == pod.metadata.uid
    return problem.grade is not Grade.INFO and (stage is not Stage.STARTED or problem.grade is Grade.ERROR)


def _own_problems(scene: Scene, pod: PlacedPod, stage: Stage, consumer: Consumer | None) -> Iterator[Problem]:
    def has(trouble: Trouble, **facts: str | int) -> Problem:
        return of_pod(trouble, key=pod.metadata.key, uid=pod.metadata.uid, **facts)

    if stage is Stage.FINISHED:
        return
    yield from _missing(scene, pod)
    for key, meant in annotations.unknown(pod.metadata.annotations):
        yield has(Trouble.UNKNOWN_ANNOTATION, annotation=key, meant=meant)
    others = [gate for gate in pod.gates if gate != GATE]
    if others:
        yield has(Trouble.GATED_BY_OTHERS, gates=", ".join(others))
    if GATE in pod.gates and (leader := scene.snapshot.leader).presence is not Presence.RUNNING:
        alone = claims.orphaned(leader.presence) and not others
        yield has(Trouble.GATED, lease=leader.name, alone=int(alone))
    if consumer is not None and consumer.consuming:
        node = scene.nodes.get(pod.spec.node_name)
        if node is None or not node.ready:
            trouble = Trouble.TERMINATING if pod.metadata.deleting else Trouble.NODE_NOT_READY
            if stage is Stage.STARTING or pod.metadata.deleting:
                yield has(trouble, node=pod.spec.node_name, owner=claims.owner_of(scene, consumer))


def _missing(scene: Scene, pod: PlacedPod) -> Iterator[Problem]:
    """Tell of claims that the pod names and that are not there, or are going."""
    namespace = pod.metadata.namespace
    made = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses or ()}
    for each in pod.spec.resource_claims or ():
        name = each.resource_claim_name or made.get(each.name)
        facts: dict[str, str | int] = {"claim": name or "", "template": each.resource_claim_template_name or ""}
        trouble: Trouble | None = None
        if name is not None:
            claim = scene.world.claim((namespace, name))
            if claim is None:
                trouble = Trouble.CLAIM_MISSING
            elif claim.metadata.deleting and not pod.spec.node_name:
                trouble = Trouble.CLAIM_DELETING
        elif each.name not in made:
            there = (namespace, facts["template"]) in scene.templates
            unread = any(g.resource.startswith("resourceclaimtemplates") for g in scene.snapshot.gaps)
            trouble = Trouble.CLAIM_NOT_MADE if there or unread else Trouble.TEMPLATE_MISSING
        if trouble is not None:
            yield of_pod(trouble, key=pod.metadata.key, uid=pod.metadata.uid, **facts)


def _places(scene: Scene, pod: PlacedPod) -> tuple[tuple[NodeGroup, ...], list[Problem]]:
    """Return the nodes in groups, and why no node at all can do."""
    placed: list[ResourceClaim] = []
    wanted: list[Wanted] = []
    for name in model.claim_names(pod):
        claim = scene.world.claim((pod.metadata.namespace, name))
        if claim is None:
            continue
        if claim.status.allocation is not None:
            placed.append(claim)
            continue
        try:
            wanted.append(prepare(claim, scene.classes))
        except UnsatisfiableError as error:
            why = claims.unsatisfiable(scene, error)
            if not why:
                return (), []
            problem = of_pod(Trouble.UNSATISFIABLE, key=pod.metadata.key, uid=pod.metadata.uid, claim=name, error=why)
            return (), [problem]
    return groups(scene, Demand.of(pod), placed=placed, wanted=wanted), []


def _holders(scene: Scene, places: tuple[NodeGroup, ...], own: list[ClaimFacts]) -> tuple[ClaimFacts, ...]:
    keys = dict.fromkeys(holder.claim for group in places for holder in group.holders)
    known = {each.key for each in own}
    found = (claims.explain(scene, key) for key in keys if key not in known)
    return tuple(each for each in found if each is not None)


def _advice(places: tuple[NodeGroup, ...], holders: tuple[ClaimFacts, ...]) -> Advice:
    """Return what would help with the least effort: where one thing only is in the way."""
    single = {group.barriers[0].obstacle: (group, group.barriers[0]) for group in reversed(places) if _single(group)}
    ways = {Obstacle.CORDONED: Way.UNCORDON, Obstacle.TAINTED: Way.UNTAINT, Obstacle.SELECTOR: Way.LABEL}
    for obstacle, way in ways.items():
        if obstacle in single:
            group, barrier = single[obstacle]
            if obstacle is not Obstacle.SELECTOR or barrier.detail:
                return Advice(way=way, node=group.nodes[0], detail=barrier.detail.replace(",", " "))
    if Obstacle.DEVICES in single:
        group, barrier = single[Obstacle.DEVICES]
        if not _too_few(barrier) and group.holders and any(each.key == group.holders[0].claim for each in holders):
            return Advice(way=Way.WAIT, claim="/".join(group.holders[0].claim))
    for group in places if all(each.barriers for each in places) else ():
        taints = _taints_in_the_way(group.barriers[0]) if _single(group) else ()
        if taints:
            return Advice(way=Way.TOLERATE, node=group.nodes[0], detail=" ".join(taints))
    return Advice()


def _taints_in_the_way(barrier: Barrier) -> tuple[str, ...]:
    """Return the taints of devices without which a node would have enough of them; none if it would not."""
    if any(each.offered - each.held < max(each.asked, 1) for each in barrier.devices):
        return ()
    return tuple(dict.fromkeys(taint for each in barrier.devices for taint in each.taints))


def _single(group: NodeGroup) -> bool:
    return len(group.barriers) == 1


def _too_few(barrier: Barrier) -> bool:
    """Whether a node will never do as it is: a request wants more devices than the node has, free or not."""
    return any(not each.shared and each.offered < max(each.asked, 1) for each in barrier.devices)


def _unscheduled(pod: PlacedPod, places: tuple[NodeGroup, ...], message: str, *, missing: bool) -> Iterator[Problem]:
    """Tell why no node has the pod. `message` is the scheduler's, `missing` whether the pod's claims say it all."""
    key, uid = pod.metadata.key, pod.metadata.uid
    fitting = sum(group.count for group in places if not group.barriers)
    devices = [barrier for group in places for barrier in group.barriers if barrier.obstacle is Obstacle.DEVICES]
    if missing:
        return
    if fitting and message:
        yield of_pod(
            Trouble.REFUSED, key=key, uid=uid, nodes=fitting, scheduler=pod.spec.scheduler_name, message=message
        )
    elif fitting:
        yield of_pod(Trouble.NOT_TRIED, key=key, uid=uid, nodes=fitting, scheduler=pod.spec.scheduler_name)
    elif places and len(devices) == len(places) and all(_too_few(each) for each in devices):
        most = max((each for barrier in devices for each in barrier.devices), key=_wanting)
        error = f"request {most.request} wants {max(most.asked, 1)} devices, and no node has more than {most.offered}"
        claims_of = ", ".join(model.claim_names(pod))
        yield of_pod(Trouble.UNSATISFIABLE, key=key, uid=uid, claim=claims_of, error=error)
    elif places:
        yield of_pod(Trouble.UNSCHEDULABLE, key=key, uid=uid, nodes=sum(group.count for group in places))


def _wanting(devices: Devices) -> tuple[bool, int]:
    return (not devices.shared and devices.offered < max(devices.asked, 1), devices.offered)
