"""Claims, pods and what is known of them: the vocabulary of the engine's tests.

Everything happens at `NOON`, in namespace ``ml``, around a claim ``train`` that is reserved for the Job ``train``.
Who is called ``a`` has the uid ``uid-a``.
"""

from typing import Final

import msgspec

from dra.engine.claims.actions import SetReservedFor
from dra.engine.claims.consumers import CONSUMING, SCHEDULING_GATE, Consumer, Stage
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import REPLACE
from dra.engine.claims.view import ClaimView, WorkloadPhase, WorkloadState, classify_entry, guard_entry
from dra.engine.claims.window import PARKED_AFTER, EntryHistory
from dra.model import workload_reservations
from dra.model.claims import (
    DELETE_PROTECTION,
    POD_CLAIM_NAME,
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.nodes import (
    Node,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from dra.model.pods import (
    POD_READY_TO_START_CONTAINERS,
    POD_SCHEDULED,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    SchedulingGate,
    SchedulingGroup,
    Volume,
)
from dra.model.references import ConsumerReference, GroupResource

NOON: Final = 1000.0
NAMESPACE: Final = "ml"
KEY: Final = (NAMESPACE, "train")
CLAIM_UID: Final = Uid("uid-claim-train")
JOBS: Final = GroupResource(resource="jobs", group="batch")
JOB: Final = ConsumerReference.parse("jobs.batch/train", uid=Uid("uid-job"))
FOREIGN: Final = ConsumerReference.parse("things.example.com/x", uid=Uid("uid-thing"))
FOREIGN_GATE: Final = "kueue.x-k8s.io/admission"

PRESENT: Final = WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid)
FINISHED: Final = WorkloadState(phase=WorkloadPhase.FINISHED, uid=JOB.uid)
GONE: Final = WorkloadState(phase=WorkloadPhase.ABSENT, gone=frozenset({JOB.uid}))


def uid(name):
    return Uid(f"uid-{name}")


# Pods as the engine keeps them:


def consumer(name, stage, **known):
    node = "n1" if stage in CONSUMING else ""
    return Consumer(
        **{
            "uid": uid(name),
            "namespace": NAMESPACE,
            "name": name,
            "resource_version": "1",
            "stage": stage,
            "first_seen": NOON,
            "stage_since": NOON,
            "created": "2026-11-20T12:00:00Z",
            "node": node,
            "claims": ("train",),
            **known,
        }
    )


def gated(name, *, gates=(SCHEDULING_GATE,), **known):
    return consumer(name, Stage.GATED, gates=gates, **known)


def waiting(name, **known):
    return consumer(name, Stage.WAITING, **known)


def unschedulable(name, *, since=NOON, **known):
    return consumer(name, Stage.WAITING, unschedulable_since=since, **known)


def starting(name, **known):
    return consumer(name, Stage.STARTING, **known)


def started(name, **known):
    return consumer(name, Stage.STARTED, **known)


def finished(name, **known):
    return consumer(name, Stage.FINISHED, **known)


def parked(name, **known):
    """A pod that has made no progress for so long that it takes turns with others."""
    return unschedulable(name, since=NOON - PARKED_AFTER, **known)


def many(make, count, *, prefix="p", **known):
    return [make(f"{prefix}{number:04}", **known) for number in range(count)]


# Claims:


def allocation(*devices, stamp="2026-11-20T11:59:00Z", nodes=()):
    results = [
        DeviceRequestAllocationResult(request="gpu", driver="gpu.example.com", pool="pool", device=device)
        for device in devices or ("gpu-0",)
    ]
    return AllocationResult(
        devices=DeviceAllocationResult(results=results),
        node_selector=selector(*nodes) if nodes else None,
        allocation_timestamp=stamp,
    )


def selector(*names):
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=list(names))
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[by_name])])


def claim(name="train", **form):
    """A claim that is allocated and reserved for nobody, but for what `form` says.

    ``workload``: the reference it is reserved for; ``entered``: whether the marks of its entry are there; ``list``:
    the entries of its list; ``allocation``; ``native``: whether the API server has the KEP's fields; ``version``;
    ``annotations``; ``deleting``; ``protected``; ``owner``: the pod it was generated for; ``identity``: its uid.
    """
    found = form.get("allocation", allocation())
    workload, native = form.get("workload"), form.get("native", False)
    annotations = dict(form.get("annotations", {}))
    if workload is not None and not native:
        annotations[workload_reservations.RESERVED_FOR] = f"{workload.group_resource}/{workload.name}"
        if workload.uid:
            annotations[workload_reservations.RESERVED_FOR_UID] = workload.uid
    if form.get("entered") and found is not None and not native:
        annotations |= workload_reservations.entry_annotations(found)
    if native and found is not None:
        found = msgspec.structs.replace(found, reserved_for_any_pod=form.get("any_pod"))
    owner = form.get("owner")
    if owner:
        annotations.setdefault(POD_CLAIM_NAME, "gpu")
    metadata = ObjectMeta(
        name=name,
        namespace=NAMESPACE,
        uid=form.get("identity", Uid(f"uid-claim-{name}")),
        resource_version=str(form.get("version", 1)),
        deletion_timestamp="2026-11-20T12:00:00Z" if form.get("deleting") else None,
        annotations=annotations,
        finalizers=[DELETE_PROTECTION] if form.get("protected", found is not None) else None,
        owner_references=[OwnerReference(api_version="v1", kind="Pod", name=owner, uid=uid(owner), controller=True)]
        if owner
        else None,
    )
    status = ResourceClaimStatus(allocation=found, reserved_for=[reference(e) for e in form.get("list", ())])
    return ResourceClaim(
        metadata=metadata, spec=ResourceClaimSpec(reserved_for=workload if native else None), status=status
    )


def reference(entry):
    """The entry that a consumer, the word ``"guard"`` or an entry itself stands for."""
    if isinstance(entry, Consumer):
        return entry.entry
    return GUARD if entry == "guard" else entry


GUARD: Final = guard_entry(claim())


def view(of, *consumers, **known):
    """What is known of a claim and its pods; entries are listed since `NOON`, or as ``entry_histories`` says."""
    gone, strangers, asked = known.pop("gone", ()), known.pop("strangers", ()), known.pop("asked", None)
    group = known.pop("group", WorkloadState())
    holders = bool(known.get("holds"))
    by_uid = {c.uid: c for c in consumers}
    found = known.pop("reservation", workload_reservations.workload_reservation(of))
    entries = tuple(
        classify_entry(
            entry,
            reservation=found,
            consumer=by_uid.get(entry.uid),
            gone=entry.uid in {uid(name) for name in gone},
            vanished=entry.uid in {each.uid for each in known.get("vanished", ())},
            stranger=entry.uid in {uid(name) for name in strangers},
            live_read_at=asked,
            group=group if entry.is_pod_group else None,
            holders=holders,
        )
        for entry in of.entries
    )
    listings = {entry.uid: EntryHistory(listed_since=NOON, last_listed=NOON) for entry in of.entries} | known.pop(
        "entry_histories", {}
    )
    return ClaimView(
        claim=of,
        reservation=found,
        entries=entries,
        entry_histories=listings,
        **{
            stage.name.lower(): tuple(c for c in consumers if c.stage is stage)
            for stage in Stage
            if stage is not Stage.FINISHED
        },
        **known,
    )


# What was decided:


def decided(of, *, policy=REPLACE, now=NOON):
    """The plan for a view; all its reasons can be told."""
    plan = decide(of, policy=policy, now=now)
    assert all(reason.text for reason in plan.reasons)
    return plan


def codes(plan):
    return [reason.code for reason in plan.reasons]


def names(entries):
    """How tests write a list: pods by name, others as kubectl does."""
    return [e.name if e.is_pod else f"{e.resource}/{e.name}" for e in entries]


def listed(plan):
    """The list that a plan writes, None if it writes none."""
    return next((names(a.entries) for a in plan.actions if isinstance(a, SetReservedFor)), None)


def of_type(plan, kind):
    return [a for a in plan.actions if isinstance(a, kind)]


# Pods and nodes as the API shows them:


def pod(name, *, version=1, **form):
    """A pod of the claim ``train`` that waits, but for what `form` says.

    ``node``; ``ready``: since when its sandbox is (a text), False if the kubelet says that it is not; ``phase``;
    ``claims``; ``templates``: entry of the spec → generated claim, or None; ``gates``; ``deleting``; ``unschedulable``:
    the scheduler's message; ``nominated``; ``pod_group``; ``volumes``; ``priority``; ``labels``; ``annotations``;
    ``created``; ``grace``: the grace period of the spec; ``asked``: that of the deletion.
    """
    conditions = []
    if "ready" in form:
        ready = form["ready"]
        conditions.append(
            PodCondition(
                type=POD_READY_TO_START_CONTAINERS,
                status="True" if ready else "False",
                last_transition_time=ready or "never",
            )
        )
    if "unschedulable" in form:
        conditions.append(
            PodCondition(type=POD_SCHEDULED, status="False", reason="Unschedulable", message=form["unschedulable"])
        )
    templates = form.get("templates", {})
    entries = [PodResourceClaim(name=f"by-{c}", resource_claim_name=c) for c in form.get("claims", ("train",))]
    entries += [PodResourceClaim(name=entry, resource_claim_template_name="gpu") for entry in templates]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=form.get("identity", uid(name)),
            resource_version=str(version),
            creation_timestamp=form.get("created", "2026-11-20T12:00:00Z"),
            deletion_timestamp="2026-11-20T12:00:00Z" if form.get("deleting") else None,
            deletion_grace_period_seconds=form.get("asked"),
            labels=form.get("labels"),
            annotations=form.get("annotations"),
        ),
        spec=PodSpec(
            termination_grace_period_seconds=form.get("grace"),
            node_name=form.get("node", ""),
            priority=form.get("priority", 0),
            scheduling_gates=[SchedulingGate(name=gate) for gate in form.get("gates", ())] or None,
            resource_claims=entries or None,
            scheduling_group=SchedulingGroup(pod_group_name=form["pod_group"]) if "pod_group" in form else None,
            volumes=form.get("volumes"),
        ),
        status=PodStatus(
            phase=form.get("phase", "Pending"),
            conditions=conditions or None,
            nominated_node_name=form.get("nominated", ""),
            resource_claim_statuses=[
                PodResourceClaimStatus(name=entry, resource_claim_name=generated)
                for entry, generated in templates.items()
                if generated != ""
            ]
            or None,
        ),
    )


DATA: Final = Volume(persistent_volume_claim={"claimName": "data"})


def node(name, *, boot="boot-1", ready=True, cordoned=False, labels=None, taints=(), annotations=None):
    condition = NodeCondition(type="Ready", status="True" if ready else "Unknown")
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=annotations),
        spec=NodeSpec(unschedulable=cordoned, taints=[Taint(key=key) for key in taints] or None),
        status=NodeStatus(node_info=NodeSystemInfo(boot_id=boot), conditions=[condition]),
    )


# The world:


def observe_all(world, *news, now=NOON):
    """Let a cache observe objects, and clear the keys that became dirty."""
    for each in news:
        if isinstance(each, type(pod("a"))):
            world.observe_pod(each, now=now)
        elif isinstance(each, type(node("n1"))):
            world.observe_node(each, now=now)
        else:
            world.observe_claim(each, now=now)
    world.dirty.clear()
    return world


def stages(world, key=KEY, now=NOON):
    """Who is where, by the view of the claim."""
    found = world.view(key, now=now)
    by_stage = {"gated": found.gated, "waiting": found.waiting, "starting": found.starting, "started": found.started}
    return {stage: sorted(c.name for c in consumers) for stage, consumers in by_stage.items() if consumers}
