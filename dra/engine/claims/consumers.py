"""Pods as consumers of a claim: the stage of a pod's life, and what rules need to know about the pod.

A pod *references* a claim in any stage. It *waits* while it is not bound, *consumes* from binding to its end, and has
*started* once its kubelet has prepared the devices for the present sandbox.
"""

from enum import IntEnum
from typing import Final

from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON, Instant
from dra.model import pods
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import Pod
from dra.model.references import ConsumerReference
from dra.model.templates import is_pod_group
from dra.model.workload_reservations import PRE_LIST

GATES_REMOVED_LAST: Final = frozenset({"scheduling.volcano.sh/queue-allocation-gate"})
"""Scheduling gates that their controllers remove only if no other gate is left: if the gate of this project waited for
such a gate, both would stay for ever (Volcano, ``HasOnlyVolcanoSchedulingGate``)."""

DEFAULT_GRACE_PERIOD: Final = 30.0
"""Seconds of ``terminationGracePeriodSeconds`` if a pod sets none (upstream's default)."""

SCHEDULING_GATE: Final = "reserve.dra/claim"
"""Scheduling gate of this project: the pod is not scheduled before its claim lists it."""


class Stage(IntEnum):
    """The stage of a pod's life; the values are in the order of life."""

    GATED = 0  # waits behind a scheduling gate, this project's or another
    WAITING = 1  # the scheduler may bind the pod at any moment
    STARTING = 2  # bound, sandbox not ready: without an entry the kubelet refuses the pod
    STARTED = 3  # bound, devices prepared: the kubelet does not check the list again
    FINISHED = 4  # ended, or deleted before it was bound: can never use the claim again


CONSUMING: Final = frozenset({Stage.STARTING, Stage.STARTED})


class Consumer(Struct, frozen=True):
    """A pod that references claims, reduced to the fields that rules read: the cache keeps thousands."""

    uid: Uid
    namespace: str
    name: str
    resource_version: str
    stage: Stage
    first_seen: Instant
    stage_since: Instant
    created: str = ""
    priority: int = 0
    node: str = ""
    claims: tuple[str, ...] = ()
    generated_claims: tuple[str, ...] = ()
    """Claims that only the pod's status names: the pod may use such a claim if the claim was generated for the pod."""
    gates: tuple[str, ...] = ()
    pod_group: str = ""
    gang_annotation: str = ""
    """Name of the group of pods that a scheduler other than kube-scheduler schedules together."""
    was_gated: bool = False
    """Whether this controller removed the pod's gate: its entry was a promise to the scheduler."""
    was_started: bool = False
    """Whether the pod had started before its sandbox went, on a node that is up: the pod may be about to end."""
    opted_in: bool = False
    deleting: bool = False
    nominated: str = ""
    """Node of ``status.nominatedNodeName``: a binding cycle is under way, or some component plans with that node."""
    nominated_since: Instant | None = None
    slow_binding: bool = False
    grace: float = DEFAULT_GRACE_PERIOD
    """Seconds that the kubelet gives the pod's containers to end."""

    unschedulable_since: Instant | None = None
    unschedulable_text: str = ""

    @property
    def key(self) -> Key:
        """Return namespace and name of the pod."""
        return (self.namespace, self.name)

    @property
    def entry(self) -> ConsumerReference:
        """Return the pod's own entry of ``status.reservedFor``."""
        return ConsumerReference(resource="pods", name=self.name, uid=self.uid)

    @property
    def scheduling_order(self) -> tuple[int, str, Uid]:
        """Return the sort key of the one global order of waiting pods: priority, then age, then uid."""
        return (-self.priority, self.created, self.uid)

    @property
    def is_consuming(self) -> bool:
        """Return whether the pod is bound and not finished."""
        return self.stage in CONSUMING

    def may_use(self, claim: ResourceClaim) -> bool:
        """Return whether the pod may use a claim it names; a claim that was generated for another owner is refused."""
        if claim.metadata.name not in self.generated_claims:
            return True
        owner = claim.controller
        if owner is None:
            return False
        return owner.uid == self.uid or (bool(self.pod_group) and is_pod_group(owner) and owner.name == self.pod_group)

    @property
    def gang(self) -> str:
        """Return the name of the group of pods that a scheduler schedules together; empty if the pod has none."""
        return self.pod_group or self.gang_annotation

    @property
    def gated_by_us(self) -> bool:
        """Return whether this project's gate is left."""
        return SCHEDULING_GATE in self.gates

    @property
    def gated_by_us_only(self) -> bool:
        """Return whether only this project's gate is left: pods with foreign gates wait for those gates first."""
        return self.gates == (SCHEDULING_GATE,)

    @property
    def precedes_other_gates(self) -> bool:
        """Return whether every other gate of the pod is removed only after this project's gate."""
        return (
            self.gated_by_us
            and len(self.gates) > 1
            and GATES_REMOVED_LAST.issuperset(gate for gate in self.gates if gate != SCHEDULING_GATE)
        )

    @property
    def is_unlistable(self) -> bool:
        """Return whether no component lists the pod in its observed state.

        This holds for a gated pod that has a foreign gate or belongs to a gang: the scheduler lists no gated pod, and
        this controller lists only pods behind its own gate. An entry of such a pod therefore belongs to a later state
        of the pod.
        """
        return self.stage is Stage.GATED and (bool(self.pod_group) or not self.gated_by_us_only)

    @property
    def bind_horizon(self) -> float:
        """Return the number of seconds for which a scheduling cycle that already runs may still bind the pod."""
        return SLOW_BIND_HORIZON if self.slow_binding else BIND_HORIZON


def stage_of(pod: Pod, *, started: bool) -> Stage:
    """Return the stage of a pod; ``started`` says whether its sandbox is known to be ready."""
    if pod.terminal:
        return Stage.FINISHED
    if pod.spec.node_name:
        return Stage.STARTED if started else Stage.STARTING
    if pod.metadata.deleting:  # the API server binds no pod that is being deleted
        return Stage.FINISHED
    return Stage.GATED if pod.spec.scheduling_gates else Stage.WAITING


def consumer_of(pod: Pod, *, before: Consumer | None, started: bool, now: Instant) -> Consumer:
    """Return the consumer for a pod; ``before`` supplies the instants of first observation."""
    meta, spec = pod.metadata, pod.spec
    given = spec.termination_grace_period_seconds
    stage = stage_of(pod, started=started)
    unschedulable_since, unschedulable_text = None, ""
    nominated, nominated_since = pod.status.nominated_node_name, None
    # A nomination to another node is a new decision of a scheduler, and its horizon starts again.
    if nominated:
        same = before is not None and before.nominated == nominated
        nominated_since = before.nominated_since if before is not None and same else now
    if stage is Stage.WAITING:
        condition = pod.condition(pods.POD_SCHEDULED)
        if condition is not None and condition.status == "False" and condition.reason == "Unschedulable":
            known = before.unschedulable_since if before is not None else None
            unschedulable_since, unschedulable_text = (now if known is None else known), condition.message
    return Consumer(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        stage=stage,
        first_seen=now if before is None else before.first_seen,
        stage_since=before.stage_since if before is not None and before.stage is stage else now,
        created=meta.creation_timestamp,
        priority=spec.priority,
        node=spec.node_name,
        claims=pods.claim_names(pod),
        generated_claims=pods.generated_claim_names(pod),
        gates=pod.gates,
        pod_group=(spec.scheduling_group.pod_group_name or "") if spec.scheduling_group else "",
        gang_annotation=pod.gang,
        was_gated=before is not None and (before.was_gated or before.gated_by_us_only or before.precedes_other_gates),
        was_started=stage is Stage.STARTING
        and before is not None
        and (before.stage is Stage.STARTED or before.was_started),
        opted_in=meta.annotation(PRE_LIST) == "true",
        deleting=meta.deleting,
        nominated=nominated,
        nominated_since=nominated_since,
        # Counted as the kubelet does (``calculateEffectiveGracePeriod``): a deletion may shorten the period; 0 does
        # not.
        grace=meta.deletion_grace_period_seconds or (DEFAULT_GRACE_PERIOD if given is None else given),
        slow_binding=any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ()),
        unschedulable_since=unschedulable_since,
        unschedulable_text=unschedulable_text,
    )


def is_relevant_change(before: Consumer, after: Consumer) -> bool:
    """Return whether a rule could decide differently: most pod events change only fields that no rule reads."""
    return (
        before.stage is not after.stage
        or before.claims != after.claims
        or before.gates != after.gates
        or before.deleting != after.deleting
        or before.unschedulable_since != after.unschedulable_since
        or before.unschedulable_text != after.unschedulable_text
        or before.priority != after.priority
        or before.nominated != after.nominated
        or before.opted_in != after.opted_in
        or before.gang_annotation != after.gang_annotation
    )


def concerns_claims(pod: Pod) -> bool:
    """Return whether a pod is kept in memory: it uses claims, or has this project's scheduling gate.

    All other pods of a cluster cost no memory.
    """
    return bool(
        pod.spec.resource_claims
        or pod.status.extended_resource_claim_status
        or (pod.spec.scheduling_gates and SCHEDULING_GATE in pod.gates)
    )
