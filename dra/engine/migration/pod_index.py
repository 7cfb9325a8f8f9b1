"""The pods of a cluster, by name, by workload and by what budgets tell apart; neither event nor question costs a scan.

A pod that has ended for good was replaced, or needs no replacement, and counts for no workload.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from dra.api.migration.well_known import ANNOTATION_RELATED_BUDGET
from dra.engine.migration.view import MigrationPod
from dra.model.meta import Key, OwnerReference, Uid

Trait: TypeAlias = tuple[str, str, str]
"""A namespace, and the key and value of a label in the namespace, or what the functions below return."""

_TEMPLATE_HASH: Final = "pod-template-hash"

_Kind: TypeAlias = tuple[str, frozenset[tuple[str, str]], tuple[str, str, str], str]


def namespace_trait(namespace: str) -> Trait:
    """Return the trait of all pods of a namespace."""
    return (namespace, "", "")


def workload_trait(namespace: str, name: str) -> Trait:
    """Return the trait of the pods of a workload; a Deployment's name counts for the pods of its ReplicaSets."""
    return (namespace, "", name)


def budget_trait(namespace: str, name: str) -> Trait:
    """Return the trait of the pods that OpenKruise relates to a PodUnavailableBudget."""
    return (namespace, ANNOTATION_RELATED_BUDGET, name)


NamespacedUid: TypeAlias = tuple[str, Uid]
"""A namespace, and the uid of a workload in it, as the pods there and their jobs say."""


class WorkloadKey(NamedTuple):
    """The identity of a workload: everything in the owner reference of a pod's controller, and the pod's namespace.

    Whoever creates a pod writes its owner references, and the API server checks none of them. So a uid alone says
    nothing: a pod of any namespace may name the uid of another tenant's workload.
    """

    namespace: str
    group: str
    kind: str
    name: str
    uid: Uid

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def in_namespace(self) -> NamespacedUid:
        """The part of the key that a job keeps when its pod is gone."""
        return (self.namespace, self.uid)


class _Group(NamedTuple):
    example: MigrationPod
    size: int


class HealthyPods:
    """The numbers of pods that are ready and not terminating, in groups of pods that no budget tells apart."""

    def __init__(self) -> None:
        self._groups: dict[_Kind, _Group] = {}
        self._by_trait: dict[Trait, dict[_Kind, None]] = {}

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._groups)

    def add(self, pod: MigrationPod, number: int = 1) -> None:
        """Count a healthy pod, or a number of pods like it; a negative one takes pods off that were added."""
        kind = _kind_of(pod)
        group = self._groups.get(kind)
        if group is None:
            for trait in _traits_of(pod):
                self._by_trait.setdefault(trait, {})[kind] = None
        size = number if group is None else group.size + number
        if size > 0:
            self._groups[kind] = _Group(pod if group is None or number > 0 else group.example, size)
            return
        del self._groups[kind]
        for trait in _traits_of(pod):
            self._by_trait[trait].pop(kind, None)
            if not self._by_trait[trait]:
                del self._by_trait[trait]

    def rarest(self, traits: Iterable[Trait]) -> Trait:
        """Return the trait that the fewest groups have."""
        return min(traits, key=lambda trait: len(self._by_trait.get(trait, ())))

    def count(self, traits: Iterable[Trait], matches: Callable[[MigrationPod], bool]) -> int:
        """Return the number of pods that have any of the traits, and match."""
        kinds = {kind: None for trait in traits for kind in self._by_trait.get(trait, ())}
        groups = (self._groups[kind] for kind in kinds)
        return sum(group.size for group in groups if matches(group.example))


class PodCounts(ABC):
    """The numbers of each workload's pods, by the key of their controller, and of healthy pods."""

    def __init__(self) -> None:
        self._pods: Counter[WorkloadKey] = Counter()
        self._unavailable: Counter[WorkloadKey] = Counter()
        self.healthy = HealthyPods()

    @abstractmethod
    def by_key(self, key: Key) -> MigrationPod | None:
        """Return the pod of a namespace and name."""

    def pods_of(self, workload: WorkloadKey) -> int:
        """Return the number of a workload's pods that have not ended."""
        return self._pods.get(workload, 0)

    def unavailable_of(self, workload: WorkloadKey) -> int:
        """Return the number of a workload's pods that have not ended, and are not ready or terminating."""
        return self._unavailable.get(workload, 0)

    def count_all(self, pods: Collection[MigrationPod]) -> None:
        """Count pods; of a hundred thousand, those that share what is looked at are counted at once."""
        numbers: dict[tuple[object, ...], int] = {}
        examples: dict[tuple[object, ...], MigrationPod] = {}
        for pod in pods:  # which exist meanwhile, so that identities stay unique
            meta = pod.metadata
            parts: tuple[object, ...] = (
                meta.namespace,
                id(meta.labels),
                id(meta.owner_references),
                meta.annotation(ANNOTATION_RELATED_BUDGET),
                is_unavailable(pod),
                pod.terminal,
            )
            numbers[parts] = numbers.get(parts, 0) + 1
            examples[parts] = pod
        for parts, number in numbers.items():
            self.count(examples[parts], number)

    def count(self, pod: MigrationPod, number: int) -> None:
        """Count a number of pods like one; a negative one takes pods off that were counted."""
        unavailable = is_unavailable(pod)
        if not unavailable:
            self.healthy.add(pod, number)
        workload = workload_of(pod)
        if workload is None or pod.terminal:
            return
        for counts in (self._pods, self._unavailable) if unavailable else (self._pods,):
            counts[workload] += number
            if not counts[workload]:
                del counts[workload]


class PodIndex(PodCounts):
    """Pods by namespace and name, with their numbers, while pods come, change and go."""

    def __init__(self, pods: Iterable[MigrationPod] = ()) -> None:
        super().__init__()
        self._by_uid: dict[Uid, MigrationPod] = {}
        self._by_key: dict[Key, MigrationPod] = {}
        for pod in pods:
            self.observe(pod)

    def observe(self, pod: MigrationPod) -> None:
        """Add a pod, or replace its earlier state; an earlier pod of the same name no longer exists."""
        uid, key = pod.metadata.uid, pod.metadata.key
        self.forget(uid)
        if (named := self._by_key.get(key)) is not None:
            self.forget(named.metadata.uid)
        self._by_uid[uid] = self._by_key[key] = pod
        self.count(pod, 1)

    def forget(self, uid: Uid) -> None:
        """Remove a pod; another pod of its name stays."""
        pod = self._by_uid.pop(uid, None)
        if pod is not None:
            del self._by_key[pod.metadata.key]
            self.count(pod, -1)

    def by_key(self, key: Key) -> MigrationPod | None:
        """Return the pod of a namespace and name."""
        return self._by_key.get(key)


def workload_of(pod: MigrationPod) -> WorkloadKey | None:
    """Return the key of the controller that a pod names; None for a bare pod."""
    owner = pod.metadata.controller
    return None if owner is None else workload_key(owner, namespace=pod.metadata.namespace)


def workload_key(owner: OwnerReference, *, namespace: str) -> WorkloadKey:
    """Return the key of the controller that a pod in a namespace names."""
    group, _, _ = owner.api_version.rpartition("/")
    return WorkloadKey(namespace=namespace, group=group, kind=owner.kind, name=owner.name, uid=owner.uid)


def deployment_of(pod: MigrationPod) -> str:
    """Return the name of the Deployment whose ReplicaSet controls a pod; empty for a pod of another workload.

    The name of such a ReplicaSet is that of the Deployment and the hash of the template, which is a label, too.
    """
    owner = pod.metadata.controller
    template_hash = (pod.metadata.labels or {}).get(_TEMPLATE_HASH, "")
    if owner is None or owner.kind != "ReplicaSet" or not template_hash:
        return ""
    name = owner.name.removesuffix(f"-{template_hash}")
    return "" if name == owner.name else name


def is_ready(pod: MigrationPod) -> bool:
    """Return whether condition Ready of a pod is True."""
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True"


def is_unavailable(pod: MigrationPod) -> bool:
    """Return whether a pod is terminating, has ended or is not ready."""
    return pod.metadata.deleting or pod.terminal or not is_ready(pod)


def _kind_of(pod: MigrationPod) -> _Kind:
    """Return everything by which budgets tell pods apart."""
    owner = pod.metadata.controller
    return (
        pod.metadata.namespace,
        frozenset((pod.metadata.labels or {}).items()),
        ("", "", "") if owner is None else (owner.api_version, owner.kind, owner.name),
        pod.metadata.annotation(ANNOTATION_RELATED_BUDGET) or "",
    )


def _traits_of(pod: MigrationPod) -> Iterator[Trait]:
    namespace, labels, owner = pod.metadata.namespace, pod.metadata.labels or {}, pod.metadata.controller
    yield namespace_trait(namespace)
    for key, value in labels.items():
        yield (namespace, key, value)
    if owner is not None:
        yield workload_trait(namespace, owner.name)
        if name := deployment_of(pod):
            yield workload_trait(namespace, name)
    if related := pod.metadata.annotation(ANNOTATION_RELATED_BUDGET):
        yield budget_trait(namespace, related)
