"""Reservations, pods and nodes in few words."""

from dra.api.reservations.model import AllocatePolicy, Owner, Phase, read
from dra.engine.reservations import amounts
from dra.engine.reservations.amounts import ONE, PODS
from dra.engine.reservations.claimants import Affinity, Claimant
from dra.engine.reservations.holdings import Holding
from dra.engine.reservations.rooms import Held, Room, room
from dra.model.meta import Uid
from tests.dra.api.reservations.manifests import manifest

DEFAULT, ALIGNED, RESTRICTED = AllocatePolicy.DEFAULT, AllocatePolicy.ALIGNED, AllocatePolicy.RESTRICTED
NOW = 1_800_000_000.0
REQUIRED = Affinity()
"""Affinity ``{}``: some reservation."""


def of(cpu=0, **more):
    """Return amounts: CPUs, and others by name."""
    given = {"cpu": cpu, **more} if cpu else more
    return {name: amounts.exact(amount) for name, amount in given.items()}


def pod(name="p", cpu=0, *, app="", affinity=None, **fields):
    known = {field: fields.pop(field) for field in tuple(fields) if field in Claimant.__struct_fields__}
    return Claimant(
        **{
            "key": ("default", name),
            "uid": Uid(f"uid-{name}"),
            "amounts": {**of(cpu, **fields), PODS: ONE},
            "labels": {"app": app} if app else {},
            "affinity": affinity,
        }
        | known
    )


def owner(app):
    return Owner.model_validate({"labelSelector": {"matchLabels": {"app": app}}})


def holding(name="r", cpu=0, *, app="a", policy=DEFAULT, **fields):
    known = {field: fields.pop(field) for field in tuple(fields) if field in Holding.__struct_fields__}
    held = of(cpu, **fields)
    return Holding(
        **{
            "name": name,
            "uid": Uid(f"uid-{name}"),
            "node": "n",
            "amounts": {PODS: ONE, **held},
            "counts_pods": PODS in held,
            "owners": (owner(app),),
            "policy": policy,
            "restricted": frozenset(held) if policy is RESTRICTED else frozenset(),
            "allocate_once": False,
        }
        | known
    )


def node(cpu=0, *, used=0, held=(), name="n", labels=None, **more) -> Room:
    """Return a node with loose pods and reservations: a holding, or one and what is consumed of it."""
    found = room(name, of(cpu, **more), labels=labels)
    if used:
        found = found.taking(Uid("others"), {**of(used), PODS: ONE})
    for each in held:
        what, consumed = each if isinstance(each, tuple) else (each, None)
        taken = {**of(consumed), PODS: ONE} if consumed else {}
        found = found.holding(Held(holding=what, consumed=taken))
    return found


def reservation(*, status=None, labels=None, annotations=None, created="2027-01-15T08:00:00Z", **spec):
    """Return a reservation of the API; `NOW` is when it was created."""
    whole = manifest(**spec)
    whole["metadata"] |= {"uid": "uid-demo", "creationTimestamp": created}
    whole["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    return read(whole | {"status": status or {}})


def available(**fields):
    status = {
        "phase": Phase.AVAILABLE.value,
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
    return reservation(status=status | fields.pop("status", {}), **fields)
