"""The diagnosis of one pod: the claims that it has, or what it waits for and what would help."""

from collections.abc import Container, Iterable, Iterator
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec

from dra.engine.allocator import ClaimToAllocate, UnsatisfiableError, claim_to_allocate
from dra.engine.claims.annotation_keys import unknown_annotations
from dra.engine.claims.consumers import SCHEDULING_GATE, Consumer, Stage, stage_of
from dra.engine.diagnosis import claims, colocation_problems, device_faults, self_waits
from dra.engine.diagnosis.allocated_shares import BoundCpus, CardShare, bound_cpus, card_shares
from dra.engine.diagnosis.binding_conditions import binding_problems
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import YOUNG, ClusterState
from dra.engine.diagnosis.exclusions import impossible_request
from dra.engine.diagnosis.extended_resources import demand_with_devices
from dra.engine.diagnosis.node_groups import (
    NodeGroup,
    Obstacle,
    ObstacleDetail,
    RequestDeviceCounts,
    format_amount,
    group_nodes,
)
from dra.engine.diagnosis.problem_codes import ProblemCode, ProblemSeverity
from dra.engine.diagnosis.problems import Problem, pod_problem
from dra.engine.diagnosis.snapshot import ControllerPresence
from dra.engine.diagnosis.translation import (
    TranslationDiagnosis,
    explain_translation,
    missing_template_problem,
    translation_problems,
)
from dra.engine.kube_scheduler.node_info import PodRequests
from dra.model import pods as model
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.quantities import CPU
from dra.model.scheduling import SchedulerPod

BATCH_PREFIX: Final = "kubernetes.io/batch-"
"""Beginning of the names of batch resources."""

KUEUE_ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
"""Scheduling gate of plain pods that Kueue has not admitted (Kueue, ``pkg/controller/jobs/pod``)."""


_TEMPLATE_INSTEAD: Final = ", while a ResourceClaimTemplate of that name does (resourceClaimTemplateName)"
_CLAIM_INSTEAD: Final = ", while a ResourceClaim of that name does (resourceClaimName)"

_OF_MACHINES: Final = frozenset({CPU, "memory", "ephemeral-storage"})
"""Resources that a node has as its machine does: nobody offers more of them while the node exists."""


class AdvisedAction(StrEnum):
    """An action that would let a pod be scheduled."""

    UNCORDON = "uncordon"
    UNTAINT = "untaint"
    LABEL = "label"
    WAIT = "wait"  # for a claim to be released
    TOLERATE = "tolerate"  # taints of devices, in the request
    REPAIR = "repair"  # devices that are held and tainted
    ROOM = "room"  # wait for room on the node that the pod's claim is allocated on
    BATCH = "batch"  # see why the node offers no more to batch pods
    NONE = "none"


class SchedulingAdvice(Struct, frozen=True):
    """The action with the least effort that would let a pod be scheduled."""

    way: AdvisedAction = AdvisedAction.NONE
    node: str = ""
    detail: str = ""
    claim: str = ""
    """NAMESPACE/NAME of the claim to wait for, or the name of the pod's claim whose node lacks room."""


class PodDiagnosis(Struct, frozen=True):
    """The diagnosis of a pod, for the command line."""

    key: Key
    uid: Uid
    stage: str
    node: str = ""
    gates: tuple[str, ...] = ()
    claims: tuple[ClaimDiagnosis, ...] = ()
    message: str = ""
    """The message of the scheduler, in its own words."""

    groups: tuple[NodeGroup, ...] = ()
    holders: tuple[ClaimDiagnosis, ...] = ()
    """The diagnoses of the claims that the groups name as holders."""

    advice: SchedulingAdvice = SchedulingAdvice()
    problems: tuple[Problem, ...] = ()
    translation: TranslationDiagnosis | None = None
    """None for a pod without requests in Koordinator's form."""

    cards: tuple[CardShare, ...] = ()
    cpus: tuple[BoundCpus, ...] = ()
    node_ready: bool = True
    """Whether the node of a bound pod reports that it is Ready, or is not known."""

    is_held_back: bool = False
    """Whether it is a batch pod that runs, so that its node gives it less CPU time while others need it."""


_HOLDER_GRADES: Final = frozenset({ProblemSeverity.LEAK, ProblemSeverity.ERROR})


def explain(cluster: ClusterState, key: Key) -> PodDiagnosis | None:
    """Return the diagnosis of a pod; None if the pod does not exist."""
    pod = cluster.pods.get(key)
    if pod is None:
        return None
    consumer = cluster.claim_cache.consumer(pod.metadata.uid)
    stage = consumer.stage if consumer is not None else stage_of(pod, started=is_ready_to_start_containers(pod))
    found_claims = [claims.explain(cluster, (key[0], name)) for name in model.claim_names(pod)]
    condition = pod.condition(model.POD_SCHEDULED)
    message = condition.message if condition is not None and condition.status == "False" else ""
    own = [claim for claim in found_claims if claim is not None]
    objects = [claim for diagnosis in own if (claim := cluster.claim_cache.claim(diagnosis.key)) is not None]
    places: tuple[NodeGroup, ...] = ()
    holders: tuple[ClaimDiagnosis, ...] = ()
    advice = SchedulingAdvice()
    problems = [*_own_problems(cluster, pod, stage, consumer), *colocation_problems.refusal_problems(pod)]
    problems += colocation_problems.pod_problems(pod)
    if stage is Stage.WAITING:
        wanted, places, unsatisfied = _node_groups(cluster, pod)
        problems += unsatisfied
        holders = _holding_claims(cluster, places, own)
        own_waits = _waits_for_own_workload(cluster, pod, holders)
        if not any(_too_large(cluster, pod)):  # waiting would not help
            advice = _scheduling_advice(places, holders, without={problem.subject.key for problem in own_waits})
        problems += own_waits
        explained = any(problem.code is not ProblemCode.NAMESPACE_NOT_ENABLED for problem in problems)
        if not explained:
            impossible = [*_impossible_claims(cluster, pod, wanted), *_too_large(cluster, pod)]
            problems += impossible or [
                *_unscheduled_problems(
                    pod, places, message, young=cluster.is_younger(pod.metadata.creation_timestamp, than=YOUNG)
                )
            ]
    related = [p for claim in own for p in claim.problems if _is_relevant(p, pod, stage)]
    leaks = [p for holder in holders for p in holder.problems if p.severity in _HOLDER_GRADES]
    return PodDiagnosis(
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
        problems=tuple(dict.fromkeys((*related, *leaks, *_with_gated_pods(cluster, problems)))),
        translation=explain_translation(cluster, pod),
        cards=tuple(card_shares(cluster, objects)),
        cpus=tuple(bound_cpus(objects)),
        node_ready=not cluster.is_node_lost(pod.spec.node_name),
        is_held_back=stage is Stage.STARTED and cluster.batch_pod_of(pod).batch_cpu > 0,
    )


def _with_gated_pods(cluster: ClusterState, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems; that of a pod behind our gate with the other pods of the namespace that one command frees too."""
    for problem in problems:
        if problem.code is not ProblemCode.GATED:
            yield problem
            continue
        namespace, name = problem.subject.key
        gated = sorted(
            key[1]
            for key, pod in cluster.pods.items()
            if key[0] == namespace and key[1] != name and SCHEDULING_GATE in pod.gates and not pod.metadata.deleting
        )
        facts = problem.facts_by_name | {
            "others": " ".join(f"pod/{other}" for other in gated[: claims.NAMED_PODS_MAX - 1]),
            "count_text": f" from this pod and {len(gated)} more of namespace {namespace}" if gated else "",
        }
        yield msgspec.structs.replace(problem, facts=tuple(facts.items()))


def pod_problems(cluster: ClusterState, key: Key) -> Iterator[Problem]:
    """Yield the problems of a pod that do not depend on nodes."""
    pod = cluster.pods[key]
    consumer = cluster.claim_cache.consumer(pod.metadata.uid)
    if consumer is not None:
        yield from _own_problems(cluster, pod, consumer.stage, consumer)


def is_ready_to_start_containers(pod: SchedulerPod) -> bool:
    """Report whether the kubelet has prepared the devices for the pod's present sandbox."""
    condition = pod.condition(model.POD_READY_TO_START_CONTAINERS)
    return condition is not None and condition.status == "True"


def are_starting(pods: Iterable[SchedulerPod]) -> bool:
    """Report whether any pod with claims is bound and not started: only of such pods Events of failures matter."""
    return any(
        pod.spec.resource_claims and stage_of(pod, started=is_ready_to_start_containers(pod)) is Stage.STARTING
        for pod in pods
    )


def _is_relevant(problem: Problem, pod: SchedulerPod, stage: Stage) -> bool:
    """Report whether a problem of one of the pod's claims matters to the pod."""
    if problem.subject.kind == "Pod":
        return problem.subject.uid == pod.metadata.uid
    if problem.code in device_faults.DEVICE_FAULTS:
        return True
    return problem.severity is not ProblemSeverity.INFO and (
        stage is not Stage.STARTED or problem.severity is ProblemSeverity.ERROR
    )


def _own_problems(
    cluster: ClusterState, pod: SchedulerPod, stage: Stage, consumer: Consumer | None
) -> Iterator[Problem]:
    def has(code: ProblemCode, **facts: str | int) -> Problem:
        return pod_problem(code, key=pod.metadata.key, uid=pod.metadata.uid, **facts)

    if stage is Stage.FINISHED:
        return
    yield from _missing_claims(cluster, pod)
    yield from translation_problems(cluster, pod)
    for key, meant in unknown_annotations(pod.metadata.annotations):
        yield has(ProblemCode.UNKNOWN_ANNOTATION, annotation=key, meant=meant)
    others = [gate for gate in pod.gates if gate != SCHEDULING_GATE]
    named = next(
        (entry.resource_claim_name for entry in pod.spec.resource_claims or () if entry.resource_claim_name), ""
    )
    if KUEUE_ADMISSION_GATE in others and named:
        yield has(ProblemCode.NOT_ADMITTED, claim=named, gate=KUEUE_ADMISSION_GATE)
    elif others:
        yield has(ProblemCode.GATED_BY_OTHERS, gates=", ".join(others))
    if SCHEDULING_GATE in pod.gates and (leader := cluster.snapshot.leader).presence is not ControllerPresence.RUNNING:
        if claims.has_no_controller(leader.presence):
            yield has(ProblemCode.GATED, lease=leader.name, alone=1, others="", count_text="")
        else:
            yield has(ProblemCode.GATE_UNKNOWN, lease=leader.name)
    if stage is Stage.WAITING:
        yield from binding_problems(cluster, pod)
    if consumer is not None:
        yield from _problems_of_node(cluster, pod, consumer)


def _problems_of_node(cluster: ClusterState, pod: SchedulerPod, consumer: Consumer) -> Iterator[Problem]:
    """Yield why a bound pod neither starts nor ends on its node."""
    owner = partial(claims.controller_name, cluster, consumer)

    def has(code: ProblemCode) -> Problem:
        facts = {"node": pod.spec.node_name, "owner": owner()}
        return pod_problem(code, key=pod.metadata.key, uid=pod.metadata.uid, **facts)

    is_starting = consumer.stage is Stage.STARTING
    if consumer.is_consuming and (is_starting or pod.metadata.deleting):
        node = cluster.nodes.get(pod.spec.node_name)
        if not node.ready if node is not None else cluster.has_all_nodes:
            yield has(ProblemCode.TERMINATING if pod.metadata.deleting else ProblemCode.NODE_NOT_READY)
    if consumer.is_consuming:
        yield from device_faults.pod_faults(cluster, pod, owner=owner, is_starting=is_starting)


def _missing_claims(cluster: ClusterState, pod: SchedulerPod) -> Iterator[Problem]:
    """Yield a problem for each claim that the pod names and that is missing or being deleted.

    A controller names the claims of a pod once it has made all of them: while a template is missing, the claims of
    other templates are none that a controller fails to make.
    """
    missing = [*_each_missing_claim(cluster, pod)]
    if not missing:
        return
    lacks_template = any(problem.code is ProblemCode.TEMPLATE_MISSING for problem in missing)
    yield from (problem for problem in missing if not (lacks_template and problem.code is ProblemCode.CLAIM_NOT_MADE))


def _each_missing_claim(cluster: ClusterState, pod: SchedulerPod) -> Iterator[Problem]:
    namespace = pod.metadata.namespace
    made = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        name = entry.resource_claim_name or made.get(entry.name)
        facts: dict[str, str | int] = {"claim": name or "", "template": entry.resource_claim_template_name or ""}
        code: ProblemCode | None = None
        if name is not None:
            claim = cluster.claim_cache.claim((namespace, name))
            if claim is None:
                code = ProblemCode.CLAIM_MISSING
                facts["similar"] = cluster.similar_claim((namespace, name))
                is_template = (namespace, name) in cluster.templates
                facts["hint"] = _TEMPLATE_INSTEAD if is_template else ""
            # A bound pod keeps the claim to its end: the deletion stops only pods that are still to be scheduled.
            elif claim.metadata.deleting and not pod.spec.node_name:
                code = ProblemCode.CLAIM_DELETING
        elif entry.name not in made:
            there = (namespace, facts["template"]) in cluster.templates
            # A template that may not be listed may exist: it must not be reported as missing.
            unread = any(g.resource.startswith("resourceclaimtemplates") for g in cluster.snapshot.gaps)
            code = ProblemCode.CLAIM_NOT_MADE if there or unread else ProblemCode.TEMPLATE_MISSING
            is_claim = cluster.claim_cache.claim((namespace, str(facts["template"]))) is not None
            facts["hint"] = _CLAIM_INSTEAD if is_claim else ""
            if code is ProblemCode.CLAIM_NOT_MADE and cluster.is_younger(pod.metadata.creation_timestamp, than=YOUNG):
                continue
            if code is ProblemCode.CLAIM_NOT_MADE:
                facts["running"] = int(cluster.snapshot.leader.presence is ControllerPresence.RUNNING)
            made_by_controller = missing_template_problem(cluster, pod, str(facts["template"]))
            if code is ProblemCode.TEMPLATE_MISSING and made_by_controller is not None:
                yield made_by_controller
                continue
        if code is not None:
            yield pod_problem(code, key=pod.metadata.key, uid=pod.metadata.uid, **facts)


def _node_groups(
    cluster: ClusterState, pod: SchedulerPod
) -> tuple[list[ClaimToAllocate], tuple[NodeGroup, ...], list[Problem]]:
    """Return the claims without devices, the nodes in groups, and a problem if no node at all can satisfy a claim.

    A pod with a missing claim gets no groups: `_missing_claims` reports the claim, and no node can run the pod.
    """
    placed: list[ResourceClaim] = []
    wanted: list[ClaimToAllocate] = []
    made = {status.name for status in pod.status.resource_claim_statuses or ()}
    if any(entry.resource_claim_name is None and entry.name not in made for entry in pod.spec.resource_claims or ()):
        return [], (), []
    for name in model.claim_names(pod):
        claim = cluster.claim_cache.claim((pod.metadata.namespace, name))
        if claim is None:
            return [], (), []
        if claim.status.allocation is not None:
            placed.append(claim)
            continue
        try:
            wanted.append(claim_to_allocate(claim, cluster.classes))
        except UnsatisfiableError as error:
            why = claims.unsatisfiable_message(cluster, error)
            if not why:
                return [], (), []
            problem = pod_problem(
                ProblemCode.UNSATISFIABLE, key=pod.metadata.key, uid=pod.metadata.uid, claim=name, error=why
            )
            return [], (), [problem]
    if wanted and any(gap.resource.startswith("resourceslices") for gap in cluster.snapshot.gaps):
        return [], (), []  # nodes whose devices were not read would count as nodes without devices
    demand, extended = demand_with_devices(cluster, pod)
    return wanted, group_nodes(cluster, demand, placed=placed, wanted=[*wanted, *extended]), []


def _holding_claims(
    cluster: ClusterState, places: tuple[NodeGroup, ...], own: list[ClaimDiagnosis]
) -> tuple[ClaimDiagnosis, ...]:
    keys = dict.fromkeys(holder.claim for group in places for holder in group.holders)
    known = {claim.key for claim in own}
    diagnoses = (claims.explain(cluster, key) for key in keys if key not in known)
    return tuple(diagnosis for diagnosis in diagnoses if diagnosis is not None)


def _waits_for_own_workload(
    cluster: ClusterState, pod: SchedulerPod, holders: tuple[ClaimDiagnosis, ...]
) -> list[Problem]:
    """Return a problem for each holder that is kept for the pod's own workload: it ends after the pod, never before."""
    views = (cluster.view(holder.key) for holder in holders)
    waits = (self_waits.problem_for_pod(cluster, view, pod) for view in views if view is not None)
    return [problem for problem in waits if problem is not None]


def _scheduling_advice(
    places: tuple[NodeGroup, ...], holders: tuple[ClaimDiagnosis, ...], *, without: Container[Key]
) -> SchedulingAdvice:
    """Return the action with the least effort, for nodes with a single obstacle; no wait for a claim in `without`."""
    single = {
        group.barriers[0].obstacle: (group, group.barriers[0])
        for group in reversed(places)
        if _has_single_obstacle(group)
    }
    actions = {
        Obstacle.CORDONED: AdvisedAction.UNCORDON,
        Obstacle.TAINTED: AdvisedAction.UNTAINT,
        Obstacle.SELECTOR: AdvisedAction.LABEL,
    }
    for obstacle, way in actions.items():
        if obstacle in single:
            group, barrier = single[obstacle]
            if obstacle is not Obstacle.SELECTOR or barrier.detail:
                return SchedulingAdvice(way=way, node=group.nodes[0], detail=barrier.detail.replace(",", " "))
    if Obstacle.DEVICES in single:
        group, barrier = single[Obstacle.DEVICES]
        known = {holder.key for holder in holders}
        awaited = next((h.claim for h in group.holders if h.claim in known and h.claim not in without), None)
        if awaited is not None and not any(device.lacks_healthy_devices for device in barrier.devices):
            return SchedulingAdvice(way=AdvisedAction.WAIT, claim="/".join(awaited))
    if tainted := _taint_advice(places):
        return tainted
    if Obstacle.ROOM in single and BATCH_PREFIX in single[Obstacle.ROOM][1].detail:
        return SchedulingAdvice(way=AdvisedAction.BATCH, node=single[Obstacle.ROOM][0].nodes[0])
    elsewhere = [b.detail for group in places for b in group.barriers if b.obstacle is Obstacle.ELSEWHERE]
    if Obstacle.ROOM in single and elsewhere:
        group, barrier = single[Obstacle.ROOM]
        return SchedulingAdvice(way=AdvisedAction.ROOM, node=group.nodes[0], detail=barrier.detail, claim=elsewhere[0])
    return SchedulingAdvice()


def _taint_advice(places: tuple[NodeGroup, ...]) -> SchedulingAdvice | None:
    """Return the taints of devices that alone keep a pod from a node, else of devices that are held as well."""
    single = (
        [group for group in places if _has_single_obstacle(group)] if all(group.barriers for group in places) else []
    )
    for group in single:
        if taints := _blocking_taints(group.barriers[0]):
            return SchedulingAdvice(way=AdvisedAction.TOLERATE, node=group.nodes[0], detail=" ".join(taints))
    for group in single:
        lacking = [
            device for device in group.barriers[0].devices if device.lacks_healthy_devices and device.held_and_tainted
        ]
        taints = tuple(dict.fromkeys(taint for device in lacking for taint in device.taints))
        if taints and not _can_never_satisfy(group.barriers[0]):
            return SchedulingAdvice(way=AdvisedAction.REPAIR, node=group.nodes[0], detail=" ".join(taints))
    return None


def _blocking_taints(barrier: ObstacleDetail) -> tuple[str, ...]:
    """Return device taints without which a node would have enough devices; empty if even then it had too few."""
    if any(device.offered - device.held < max(device.asked, 1) for device in barrier.devices):
        return ()
    return tuple(dict.fromkeys(taint for device in barrier.devices for taint in device.taints))


def _has_single_obstacle(group: NodeGroup) -> bool:
    return len(group.barriers) == 1


def _can_never_satisfy(barrier: ObstacleDetail) -> bool:
    """Report whether a request asks for more devices than the node has, held or not."""
    return any(not device.shared and device.offered < max(device.asked, 1) for device in barrier.devices)


def _impossible_claims(
    cluster: ClusterState, pod: SchedulerPod, wanted: Iterable[ClaimToAllocate]
) -> Iterator[Problem]:
    """Yield each claim whose devices no node can ever have, with the reason."""
    for claim in wanted:
        if error := impossible_request(cluster, claim):
            yield pod_problem(
                ProblemCode.UNSATISFIABLE, key=pod.metadata.key, uid=pod.metadata.uid, claim=claim.key[1], error=error
            )


def _too_large(cluster: ClusterState, pod: SchedulerPod) -> Iterator[Problem]:
    """Yield the resources of which a pod requests more than any node has, however few pods there are."""
    if not cluster.node_infos:
        return
    most = {
        resource: max(info.capacity.get(resource, 0) for info in cluster.node_infos.values())
        for resource in _OF_MACHINES
    }
    lacking = [
        f"{resource}: {format_amount(resource, amount)} requested, at most {format_amount(resource, most[resource])}"
        for resource, amount in sorted(PodRequests.from_pod(pod).amounts.items())
        if resource in most and amount > most[resource]
    ]
    if lacking:
        amounts = "; ".join(lacking)
        yield pod_problem(ProblemCode.POD_TOO_LARGE, key=pod.metadata.key, uid=pod.metadata.uid, amounts=amounts)


NEGATIVE_SHARE: Final = "must not be negative"
"""The words in which kube-scheduler 1.38 places no pod, while the allocation of any claim has a negative amount."""


def _unscheduled_problems(
    pod: SchedulerPod, places: tuple[NodeGroup, ...], message: str, *, young: bool
) -> Iterator[Problem]:
    """Yield why no node has the pod; `message` is the scheduler's."""
    key, uid = pod.metadata.key, pod.metadata.uid
    fitting = sum(group.count for group in places if not group.barriers)
    devices = [barrier for group in places for barrier in group.barriers if barrier.obstacle is Obstacle.DEVICES]
    if fitting and message:
        yield pod_problem(
            ProblemCode.REFUSED,
            key=key,
            uid=uid,
            nodes=fitting,
            scheduler=pod.spec.scheduler_name,
            message=message,
            negative=int(NEGATIVE_SHARE in message),
        )
    elif fitting:
        if not young:
            yield pod_problem(ProblemCode.NOT_TRIED, key=key, uid=uid, nodes=fitting, scheduler=pod.spec.scheduler_name)
    elif places and len(devices) == len(places) and all(_can_never_satisfy(barrier) for barrier in devices):
        most = max((device for barrier in devices for device in barrier.devices), key=_by_shortage)
        error = f"request {most.request} wants {max(most.asked, 1)} devices, and no node has more than {most.offered}"
        claims_of = ", ".join(model.claim_names(pod))
        yield pod_problem(ProblemCode.UNSATISFIABLE, key=key, uid=uid, claim=claims_of, error=error)
    elif places:
        yield pod_problem(ProblemCode.UNSCHEDULABLE, key=key, uid=uid, nodes=sum(group.count for group in places))


def _by_shortage(devices: RequestDeviceCounts) -> tuple[bool, int]:
    return (not devices.shared and devices.offered < max(devices.asked, 1), devices.offered)
