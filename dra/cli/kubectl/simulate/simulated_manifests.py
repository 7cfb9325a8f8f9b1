"""Converts manifests to objects for a simulation: pods, the pods of workloads, claims, and other objects that matter.

A workload is replaced by the pods that its controller would create at once: a Job's ``parallelism``, a Deployment's
``replicas``. A pod with a claim template gets the claim that would be created for it. Objects of other kinds are
reported as not simulated.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

import msgspec

from dra.api.koordinator import well_known
from dra.api.migration.model import KIND as MIGRATION_KIND
from dra.api.migration.model import PodMigrationJob, parse_pod_migration_job
from dra.api.reservations import model as api
from dra.api.reservations.model import KIND
from dra.cli.kubectl.manifests import MalformedManifestError, flatten_lists
from dra.cli.kubectl.simulate.unsimulated_fields import RUNTIME_CLASS, unsimulated_fields
from dra.kube.resources import CLAIMS, PRIORITY_CLASSES
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.meta import Key, ObjectMeta, UnstructuredObject
from dra.model.node_pods import AgentNode
from dra.model.preemption import PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER, PriorityClass
from dra.model.runtime_classes import RuntimeClass
from dra.model.scheduling import SchedulerPod
from dra.model.slices import ResourceSlice
from dra.model.taints import DeviceTaintRule
from dra.model.templates import ResourceClaimTemplate
from dra.model.workload_types import WORKLOAD_TYPES
from localplane.kinds.device_classes import DeviceClassStrategy
from localplane.kinds.device_taint_rules import DeviceTaintRuleStrategy
from localplane.kinds.kind import Strategy
from localplane.kinds.resource_slices import ResourceSliceStrategy

Json = dict[str, Any]

OWN_SCHEDULING_GATE: Final = "reserve.dra/claim"
"""Scheduling gate that our controller removes."""


class ObjectKey(NamedTuple):
    """The kind of an object, with its namespace and name."""

    kind: str
    key: Key


@dataclass(slots=True)
class Manifests:
    """The objects of the manifests, by kind."""

    pods: list[SchedulerPod] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)
    templates: list[ResourceClaimTemplate] = field(default_factory=list)
    nodes: list[AgentNode] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    classes: list[DeviceClass] = field(default_factory=list)
    rules: list[DeviceTaintRule] = field(default_factory=list)
    reservations: list[UnstructuredObject] = field(default_factory=list)
    migrations: list[PodMigrationJob] = field(default_factory=list)
    priority_classes: list[PriorityClass] = field(default_factory=list)
    runtime_classes: list[RuntimeClass] = field(default_factory=list)
    runtime_class_names: dict[Key, str] = field(default_factory=dict)
    """Pod → its RuntimeClass, for pods that name one."""

    priority_class_names: dict[Key, str] = field(default_factory=dict)
    """Pod → its PriorityClass, empty if it names none, for pods without a priority in the spec."""

    enabled_namespaces: set[str] = field(default_factory=set)
    """Namespaces of the manifests whose label enables the translation of requests in Koordinator's form."""

    contents: dict[ObjectKey, Json] = field(default_factory=dict)
    """The manifests of objects that may exist already: only what is written there changes the object."""

    unsimulated: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """Pod → the fields that the simulation does not read, for pods that have any."""

    ignored: list[str] = field(default_factory=list)
    """Objects that are not simulated."""


def parse_manifests(documents: Iterable[Any], *, namespace: str) -> Manifests:
    """Return the objects of the manifests; raise MalformedManifestError."""
    manifests = Manifests()
    names: Counter[tuple[str, str]] = Counter()
    for document in flatten_lists(documents):
        kind = str(document.get("kind", ""))
        meta = document.get("metadata") or {}
        if not isinstance(meta, Mapping):
            raise MalformedManifestError(f"{kind or 'object'}: metadata must be a mapping")
        prefix = str(meta.get("generateName") or "")
        name = str(meta.get("name") or prefix)
        where = f"{kind or 'object'} {name or '(without a name)'}"
        if not (kind and name):
            raise MalformedManifestError(f"{where}: kind and metadata.name are required")
        if not meta.get("name"):
            names[kind, prefix] += 1
            name = _generated_name(prefix, number=names[kind, prefix])
        try:
            named = _as_json({**document, "metadata": {**meta, "name": name}})
            if not _add_manifest(manifests, kind, named, namespace=namespace):
                manifests.ignored.append(where)
        except (msgspec.ValidationError, TypeError, AttributeError, ValueError) as error:
            raise MalformedManifestError(f"{where}: {error}") from error
    return manifests


def _generated_name(prefix: str, *, number: int) -> str:
    """Return a name for the object of a kind that is, as the ``number``-th, to get one with a prefix."""
    return f"{prefix}simulated" if number == 1 else f"{prefix}simulated-{number}"


def _as_json(value: Any) -> Any:  # noqa: ANN401 - what YAML can say
    """Return the value as it would be sent to the API server, where YAML's dates and fractions are strings."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return str(value) if isinstance(value, float | date) else value


_MODELS: Final[Mapping[str, tuple[str, Any, bool]]] = {
    "ResourceClaim": ("claims", ResourceClaim, True),
    "ResourceClaimTemplate": ("templates", ResourceClaimTemplate, True),
    "Node": ("nodes", AgentNode, False),
    "ResourceSlice": ("slices", ResourceSlice, False),
    "DeviceClass": ("classes", DeviceClass, False),
    "PriorityClass": ("priority_classes", PriorityClass, False),
    "DeviceTaintRule": ("rules", DeviceTaintRule, False),
    "RuntimeClass": ("runtime_classes", RuntimeClass, False),
}

STRATEGIES: Final[Mapping[str, Strategy]] = {
    "ResourceSlice": ResourceSliceStrategy(by_pool=False, stricter=False),
    "DeviceClass": DeviceClassStrategy(),
}
"""Kind → the rules by which the API server refuses an object; what is refused is not simulated."""

_GROUPS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"), CLAIMS.group),
    **dict.fromkeys(("Node", "Pod", "Namespace"), ""),
    "DeviceTaintRule": CLAIMS.group,
    "RuntimeClass": "node.k8s.io",
    "PriorityClass": PRIORITY_CLASSES.group,
    KIND: api.GROUP,
    MIGRATION_KIND: api.GROUP,
}
"""Kind → its group, for objects that are no workloads: others have kinds of these names, too."""

_WORKLOAD_GROUPS: Final = frozenset({"", "apps", "batch"})
"""Groups whose workloads have a pod template; those of others are simulated if they have one."""

_SCALABLE_KINDS: Final = frozenset(workload_type.kind for workload_type in WORKLOAD_TYPES if workload_type.scalable)


def _add_manifest(manifests: Manifests, kind: str, document: Json, *, namespace: str) -> bool:
    """Add the objects of one manifest; return whether its kind is simulated."""
    meta = document["metadata"]
    group = _group(document)
    if group and group != _GROUPS.get(kind, group):  # a kind of others, with the same name
        return False
    if kind in _MODELS:
        attribute, struct, namespaced = _MODELS[kind]
        where = {"namespace": meta.get("namespace", namespace) if namespaced else ""}
        named = {**meta, **where, "uid": meta.get("uid") or f"simulated-{kind}-{meta['name']}", "resourceVersion": "1"}
        content = {**document, "metadata": named}
        if kind == "ResourceClaim":  # the API server drops the status of a new claim, but keeps that of a Node
            content.pop("status", None)
        if kind == "DeviceTaintRule":
            _check(DeviceTaintRuleStrategy(), {**content, "spec": {"taint": {}, **(content.get("spec") or {})}})
        if kind in STRATEGIES:
            _check(STRATEGIES[kind], {**content, "spec": content.get("spec") or {}})
        converted = msgspec.convert(content, struct)
        getattr(manifests, attribute).append(converted)
        manifests.contents[ObjectKey(kind, converted.metadata.key)] = document
        return True
    if kind in {KIND, MIGRATION_KIND, "Namespace", "Pod"}:
        _add_object(manifests, kind, document, namespace=namespace)
        return True
    return _add_workload(manifests, kind, document, namespace=namespace)


def _add_workload(manifests: Manifests, kind: str, document: Json, *, namespace: str) -> bool:
    """Add the pods that the controller of a workload would create; return whether its kind is simulated."""
    meta, group = document["metadata"], _group(document)
    count = _pod_count(kind, document.get("spec") or {})
    if count is None:
        return False
    template = document["spec"].get("template") or {}
    if not template.get("spec"):
        if group in _WORKLOAD_GROUPS:
            raise MalformedManifestError(f"{kind} {meta['name']}: spec.template.spec is required")
        return False  # such as Volcano's Job
    owner = {"apiVersion": document.get("apiVersion", ""), "kind": kind, "name": meta["name"], "controller": True}
    for number in range(count):
        pod_meta = {
            **(template.get("metadata") or {}),
            "name": f"{meta['name']}-{number}",
            "namespace": meta.get("namespace", namespace),
            "ownerReferences": [{**owner, "uid": f"simulated-{kind}-{meta['name']}"}],
        }
        _add_pod(manifests, {"metadata": pod_meta, "spec": template["spec"]}, namespace=namespace)
    return True


def _group(document: Json) -> str:
    return str(document.get("apiVersion") or "").rpartition("/")[0]


def _check(strategy: Strategy, document: Json) -> None:
    """Raise ValueError if the API server would refuse an object."""
    errors = strategy.validate(document)
    if errors:
        raise ValueError("; ".join(f"{error.field}: {error.message}" for error in errors))


def _add_object(manifests: Manifests, kind: str, document: Json, *, namespace: str) -> None:
    if kind == KIND:
        manifests.reservations.append(parse_reservation_manifest(document))
    elif kind == MIGRATION_KIND:
        manifests.migrations.append(parse_job_manifest(document))
    elif kind == "Pod":
        _add_pod(manifests, document, namespace=namespace)
    elif (document["metadata"].get("labels") or {}).get(well_known.LABEL_ENABLED) == well_known.ENABLED:
        manifests.enabled_namespaces.add(str(document["metadata"]["name"]))


def parse_reservation_manifest(document: Json) -> UnstructuredObject:
    """Return a Reservation of a manifest, with a simulated uid; raise MalformedReservationError."""
    meta = {**document["metadata"], "uid": f"simulated-{KIND}-{document['metadata']['name']}", "resourceVersion": "1"}
    content = {**document, "metadata": meta}
    content.pop("status", None)
    api.parse_reservation(content)
    return UnstructuredObject(metadata=msgspec.convert(meta, ObjectMeta), content=content)


def parse_job_manifest(document: Json) -> PodMigrationJob:
    """Return a PodMigrationJob of a manifest, with a simulated uid; raise MalformedPodMigrationJobError."""
    meta = document["metadata"]
    content = {**document, "metadata": {**meta, "uid": f"simulated-migration-{meta['name']}"}}
    content.pop("status", None)
    return parse_pod_migration_job(content)


def _pod_count(kind: str, spec: Json) -> int | None:
    """Return the number of pods that a workload runs at once; None for a kind that is not simulated."""
    if kind == "Job":
        if spec.get("suspend"):
            return 0
        wanted = int(spec.get("parallelism", 1))
        completions = spec.get("completions")
        return wanted if completions is None else min(wanted, int(completions))
    if kind in _SCALABLE_KINDS:
        return int(spec.get("replicas", 1))
    return None


def _add_pod(manifests: Manifests, document: Json, *, namespace: str) -> None:
    meta, spec = dict(document["metadata"]), dict(document.get("spec") or {})
    meta.setdefault("namespace", namespace)
    meta["uid"] = f"simulated-{meta['namespace']}-{meta['name']}"
    if spec.get(RUNTIME_CLASS):
        manifests.runtime_class_names[meta["namespace"], meta["name"]] = str(spec[RUNTIME_CLASS])
    if fields := unsimulated_fields(spec):
        manifests.unsimulated[meta["namespace"], meta["name"]] = fields
    for field_name in ("containers", "initContainers"):
        if field_name in spec:
            spec[field_name] = [_default(container, of_host=spec.get("hostNetwork")) for container in spec[field_name]]
    if spec.get("priority") is None:
        manifests.priority_class_names[meta["namespace"], meta["name"]] = str(spec.get("priorityClassName") or "")
    gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != OWN_SCHEDULING_GATE]
    spec["schedulingGates"] = gates or None
    manifests.pods.append(msgspec.convert({"metadata": meta, "spec": spec}, DiagnosedPod))


def _default(container: Json, *, of_host: object) -> Json:
    """Return a container as the API server defaults it.

    A limit without a request becomes the request, too; in the network of the host, each port is one of the host.
    """
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    defaulted = {**container, "resources": {**resources, "requests": requests}}
    if of_host is True and container.get("ports"):
        defaulted["ports"] = [{**port, "hostPort": port.get("containerPort", 0)} for port in container["ports"]]
    return defaulted


class UnknownPriorityClassError(ValueError):
    """A pod names a PriorityClass that does not exist."""


def with_priority(
    pod: SchedulerPod, name: str, classes: Iterable[PriorityClass], *, complete: bool = True
) -> SchedulerPod:
    """Return a pod with the priority of the named class; without a name, of the default class.

    `complete`: whether `classes` are all classes of the cluster. Raises UnknownPriorityClassError.
    """
    known = {known_class.metadata.name: known_class for known_class in classes}
    priority_class = known.get(name)
    if not name:
        priority_class = min(
            (candidate for candidate in known.values() if candidate.global_default), key=_priority_value, default=None
        )
    elif priority_class is None and complete:
        raise UnknownPriorityClassError(f"pod {'/'.join(pod.metadata.key)}: PriorityClass {name} does not exist")
    if priority_class is None:
        return pod
    never = PREEMPT_NEVER in {priority_class.preemption_policy, pod.spec.preemption_policy}
    spec = msgspec.structs.replace(
        pod.spec, priority=priority_class.value, preemption_policy=PREEMPT_NEVER if never else PREEMPT_LOWER_PRIORITY
    )
    return msgspec.structs.replace(pod, spec=spec)


def _priority_value(priority_class: PriorityClass) -> int:
    return priority_class.value
