"""Builds the Reservation that a command line describes, without a request to a cluster.

Owners are named as users name workloads. A pod is an owner by its name, the pods of a workload by their controller,
which may be created later. Names and labels are limited to one namespace, since any user who may create pods somewhere
can set both; only labels may apply to all namespaces.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dra.api.reservations import model
from dra.engine.reservations import amounts, reservation_info
from dra.model.meta import Struct
from dra.model.references import ConsumerReference, GroupResource, MalformedReferenceError

POD_KIND: Final = GroupResource(resource="pods", group="")

POD_CONTROLLER_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "jobs.batch": ("batch/v1", "Job"),
    "replicasets.apps": ("apps/v1", "ReplicaSet"),
    "statefulsets.apps": ("apps/v1", "StatefulSet"),
    "daemonsets.apps": ("apps/v1", "DaemonSet"),
    "replicationcontrollers": ("v1", "ReplicationController"),
}
"""Kinds that control pods, with apiVersion and kind; other kinds must be looked up in the cluster."""

_INDIRECT_CONTROLLERS: Final = {
    "deployments.apps": "its ReplicaSets, whose names change",
    "cronjobs.batch": "its Jobs, whose names change",
    "jobsets.jobset.x-k8s.io": "its Jobs",
}
"""Kinds that never control pods directly."""

_RESOURCE_ALIASES: Final = {
    "po": "pods",
    "pod": "pods",
    "job": "jobs.batch",
    "jobs": "jobs.batch",
    "rs": "replicasets.apps",
    "replicaset": "replicasets.apps",
    "replicasets": "replicasets.apps",
    "sts": "statefulsets.apps",
    "statefulset": "statefulsets.apps",
    "statefulsets": "statefulsets.apps",
    "ds": "daemonsets.apps",
    "daemonset": "daemonsets.apps",
    "daemonsets": "daemonsets.apps",
    "deploy": "deployments.apps",
    "deployment": "deployments.apps",
    "deployments": "deployments.apps",
    "rc": "replicationcontrollers",
    "replicationcontroller": "replicationcontrollers",
    "cj": "cronjobs.batch",
    "cronjob": "cronjobs.batch",
    "cronjobs": "cronjobs.batch",
}


class InvalidReserveOptionsError(ValueError):
    """An option of ``kubectl dra reserve`` is invalid; the text names the option."""


class ReserveOptions(Struct, frozen=True, kw_only=True):
    """The checked options of ``kubectl dra reserve``."""

    name: str
    resources: Mapping[str, str]
    owners: tuple[str, ...] = ()
    labels: str = ""
    namespace: str
    """Namespace of the owners."""
    everywhere: bool = False
    """Whether pods with the labels are owners in every namespace."""
    ttl: str | None = None
    expires: str | None = None
    node: str | None = None
    reusable: bool = False
    policy: str | None = None


def unknown_owner_kinds(wish: ReserveOptions) -> tuple[GroupResource, ...]:
    """Return the kinds of owners to look up in the cluster; raise InvalidReserveOptionsError."""
    kinds = (_parse_owner(each).group_resource for each in wish.owners)
    return tuple(kind for kind in dict.fromkeys(kinds) if kind != POD_KIND and str(kind) not in POD_CONTROLLER_KINDS)


def build_manifest(
    wish: ReserveOptions, *, kinds: Mapping[str, tuple[str, str]] = POD_CONTROLLER_KINDS
) -> dict[str, Any]:
    """Return the Reservation; `kinds` are the kinds that can be owners. Raise InvalidReserveOptionsError."""
    if not wish.resources:
        raise InvalidReserveOptionsError("what is to be held? --cpu 6, --memory 20Gi, --resource NAME=AMOUNT")
    if wish.everywhere and not wish.labels:
        raise InvalidReserveOptionsError("-A goes with -l; --owner names an object of one namespace")
    owners = [_owner_object(each, wish.namespace, kinds) for each in wish.owners]
    if wish.labels:
        limited = {} if wish.everywhere else {"object": {"namespace": wish.namespace}}
        owners.append({**limited, "labelSelector": {"matchLabels": _parse_labels(wish.labels)}})
    if not owners:
        raise InvalidReserveOptionsError("for whom? --owner jobs.batch/train, --owner pod/NAME, or -l app=web")
    container = {"name": "held", "resources": {"requests": dict(wish.resources)}}
    where = {"nodeName": wish.node} if wish.node else {}
    # The placeholder is created in the owners' namespace: their quota counts.
    metadata = {} if wish.everywhere else {"metadata": {"namespace": wish.namespace}}
    optional = {"ttl": wish.ttl, "expires": wish.expires, "allocatePolicy": wish.policy}
    template = {**metadata, "spec": {**where, "containers": [container]}}
    made = {
        "apiVersion": model.API_VERSION,
        "kind": model.KIND,
        "metadata": {"name": wish.name},
        "spec": {
            "template": template,
            "owners": owners,
            **{name: value for name, value in optional.items() if value},
            **({"allocateOnce": False} if wish.reusable else {}),
        },
    }
    try:
        amounts.template_amounts(template)
        fault = reservation_info.from_reservation(model.parse_reservation(made)).fault
    except (amounts.MalformedAmountsError, model.MalformedReservationError) as error:
        raise InvalidReserveOptionsError(str(error)) from error
    if fault:
        raise InvalidReserveOptionsError(f"reservation {wish.name}: {fault}")
    return made


def parse_resources(*, cpu: str | None, memory: str | None, others: Sequence[str]) -> dict[str, str]:
    """Return amounts by resource name; raise InvalidReserveOptionsError."""
    found = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    for each in others:
        name, equals, amount = each.partition("=")
        if not (name and equals and amount):
            raise InvalidReserveOptionsError(f"--resource {each}: write it as in: --resource example.com/gpu=2")
        if name in found:
            raise InvalidReserveOptionsError(f"--resource {each}: {name} is given twice")
        found[name] = amount
    return found


def _parse_owner(text: str) -> ConsumerReference:
    """Parse an owner as kubectl does: ``jobs.batch/train``, ``job/train``, ``jobs.v1.batch/train``."""
    kind, slash, name = text.partition("/")
    try:
        wanted = GroupResource.parse(kind.lower()).unversioned
        known = GroupResource.parse(_RESOURCE_ALIASES.get(wanted.resource, str(wanted)))
        meant = known if wanted.group in {"", known.group} else wanted
        found = ConsumerReference.parse(f"{meant}{slash}{name}")
    except MalformedReferenceError as error:
        raise InvalidReserveOptionsError(f"--owner {error}") from error
    if behind := _INDIRECT_CONTROLLERS.get(str(found.group_resource)):
        raise InvalidReserveOptionsError(
            f"--owner {text}: its pods belong to {behind}; name its pods by their labels instead: -l app={found.name}"
        )
    return found


def _owner_object(text: str, namespace: str, kinds: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    found = _parse_owner(text)
    if found.group_resource == POD_KIND:
        return {"object": {"kind": "Pod", "namespace": namespace, "name": found.name}}
    known = kinds.get(str(found.group_resource))
    if known is None:
        raise InvalidReserveOptionsError(
            f"--owner {text}: no such kind is known here; write it as in: jobs.batch/train"
        )
    api_version, kind = known
    return {"controller": {"apiVersion": api_version, "kind": kind, "name": found.name, "namespace": namespace}}


def _parse_labels(text: str) -> dict[str, str]:
    found = {}
    for each in text.split(","):
        name, equals, value = each.partition("=")
        value = value.removeprefix("=")
        if not equals or name.endswith("!") or not name.strip():
            raise InvalidReserveOptionsError(f"-l {text}: only as in: -l app=web,tier=front; for more write a manifest")
        found[name.strip()] = value.strip()
    return found
