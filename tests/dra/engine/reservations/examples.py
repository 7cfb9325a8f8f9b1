"""Reservations, pods and nodes in few words."""

from dra.api.reservations.model import AllocatePolicy, ReservationOwner, ReservationPhase, parse_reservation
from dra.engine.instants import Instant, Moment, WallTime
from dra.engine.reservations.node_usage import NodeUsage, ReservationUsage, empty_node
from dra.engine.reservations.pod_info import PodInfo, ReservationAffinity
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import quantities
from dra.model.meta import ObjectMeta, Uid, UnstructuredObject
from dra.model.quantities import NANOS_PER_UNIT, PODS
from tests.dra.api.reservations.manifests import manifest

DEFAULT, ALIGNED, RESTRICTED = AllocatePolicy.DEFAULT, AllocatePolicy.ALIGNED, AllocatePolicy.RESTRICTED
NOW = 1_800_000_000.0
REQUIRED = ReservationAffinity()
"""Affinity ``{}``: some reservation."""


def at(wall: WallTime = NOW + 1, *, instant: Instant = 0.0) -> Moment:
    """Return the time on both clocks."""
    return Moment(instant=instant, wall=wall)


def of(cpu=0, **more):
    """Return amounts: CPUs, and others by name."""
    given = {"cpu": cpu, **more} if cpu else more
    return {name: quantities.to_nanos(amount) for name, amount in given.items()}


def pod(name="p", cpu=0, *, app="", affinity=None, **fields):
    known = {field: fields.pop(field) for field in tuple(fields) if field in PodInfo.__struct_fields__}
    return PodInfo(
        **{
            "key": ("default", name),
            "uid": Uid(f"uid-{name}"),
            "amounts": {**of(cpu, **fields), PODS: NANOS_PER_UNIT},
            "labels": {"app": app} if app else {},
            "affinity": affinity,
        }
        | known
    )


def owner(app):
    return ReservationOwner.model_validate({"labelSelector": {"matchLabels": {"app": app}}})


def reservation_info(name="r", cpu=0, *, app="a", policy=DEFAULT, **fields):
    known = {field: fields.pop(field) for field in tuple(fields) if field in ReservationInfo.__struct_fields__}
    held = of(cpu, **fields)
    return ReservationInfo(
        **{
            "name": name,
            "uid": Uid(f"uid-{name}"),
            "node": "n",
            "allocatable": {PODS: NANOS_PER_UNIT, **held},
            "reserves_pods": PODS in held,
            "owners": (owner(app),),
            "policy": policy,
            "restricted_resources": frozenset(held) if policy is RESTRICTED else frozenset(),
            "allocate_once": False,
        }
        | known
    )


def node(cpu=0, *, used=0, held=(), name="n", labels=None, **more) -> NodeUsage:
    """Return a node with pods and reservations: a ReservationInfo, or one and the cpu allocated of it."""
    found = empty_node(name, of(cpu, **more), labels=labels)
    if used:
        found = found.with_pod(Uid("others"), {**of(used), PODS: NANOS_PER_UNIT})
    for each in held:
        info, allocated = each if isinstance(each, tuple) else (each, None)
        taken = {**of(allocated), PODS: NANOS_PER_UNIT} if allocated else {}
        found = found.with_reservation(ReservationUsage(info=info, allocated=taken))
    return found


def content(*, status=None, labels=None, annotations=None, created="2027-01-15T08:00:00Z", uid="uid-demo", **spec):
    """Return a reservation as the API has it; `NOW` is when it was created."""
    whole = manifest(**spec)
    whole["metadata"] |= {"uid": uid, "creationTimestamp": created}
    whole["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    return whole | {"status": status or {}}


def reservation(**fields):
    return parse_reservation(content(**fields))


def observed(whole, version="1"):
    """Return a reservation as an informer shows it."""
    metadata = ObjectMeta(name="demo", uid=Uid(whole["metadata"]["uid"]), resource_version=version)
    return UnstructuredObject(metadata=metadata, content=whole)


def available(**fields):
    return parse_reservation(available_content(**fields))


def available_content(**fields):
    status = {
        "phase": ReservationPhase.AVAILABLE.value,
        "nodeName": "n",
        "allocatable": {"cpu": "500m", "memory": "800Mi"},
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "lastProbeTime": "2027-01-15T08:00:00Z",
                "lastTransitionTime": "2027-01-15T08:00:00Z",
            }
            for kind, reason in (("Scheduled", "Scheduled"), ("Ready", "Available"))
        ],
    }
    return content(status=status | fields.pop("status", {}), **fields)
