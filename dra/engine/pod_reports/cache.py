"""The pods that use claims, by namespace and by claim: which reports are to be checked after a change."""

from collections.abc import Mapping

from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.pod_reports.cards import CardIndex
from dra.engine.pod_reports.decide import PodReportView
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObjectMetadata, Uid
from dra.model.pods import Pod, claim_names
from dra.model.slices import ResourceSlice


class PodReportCache(Cache[Key]):
    """The pods with their claims, the published GPUs, and the reports written last; ``dirty`` are pods to check."""

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Key] = DirtyKeys()
        self._cards = CardIndex()
        self._namespaces: set[str] = set()
        """Namespaces whose pods have reports."""

        self._users: dict[Key, dict[Key, None]] = {}
        """The pods that name a claim, by the claim."""

        self._uses: dict[Key, tuple[Key, ...]] = {}
        """The claims that a pod names, by the pod."""

        self._waiting: dict[Key, None] = {}
        """Pods on GPUs that no slice publishes yet."""

        self._written: dict[Uid, Mapping[str, str]] = {}
        """The reports written last: the cache of pods does not keep each annotation of a pod that has many."""

    def observe_pod(self, pod: Pod) -> None:
        """Record which claims a pod uses."""
        key = pod.metadata.key
        used = tuple((key[0], name) for name in claim_names(pod))
        if used != self._uses.get(key, ()):
            self._forget_uses(key)
            self._uses[key] = used
            for claim in used:
                self._users.setdefault(claim, {})[key] = None
        if used and key[0] in self._namespaces:
            self.dirty.add(key)

    def forget_pod(self, pod: Pod) -> None:
        """Forget a pod that is deleted, or that no longer uses claims."""
        self._forget_uses(pod.metadata.key)
        self._waiting.pop(pod.metadata.key, None)
        self._written.pop(pod.metadata.uid, None)

    def observe_claim(self, claim: ResourceClaim) -> None:
        """Mark the pods that use a claim."""
        if claim.metadata.namespace in self._namespaces:
            self.dirty.update(self._users.get(claim.metadata.key, ()))

    def observe_namespace(self, namespace: PartialObjectMetadata) -> None:
        """Record that the pods of a namespace have reports."""
        name = namespace.metadata.name
        if name not in self._namespaces:
            self._namespaces.add(name)
            self.dirty.update(key for key in self._uses if key[0] == name)

    def forget_namespace(self, namespace: PartialObjectMetadata) -> None:
        """Record that the pods of a namespace have no further reports."""
        self._namespaces.discard(namespace.metadata.name)

    def observe_slice(self, published: ResourceSlice) -> None:
        """Record the GPUs of a slice."""
        self._cards.observe(published)
        self._cards_changed()

    def forget_slice(self, deleted: ResourceSlice) -> None:
        """Forget the GPUs of a deleted slice."""
        self._cards.forget(deleted)
        self._cards_changed()

    def await_cards(self, pod: Key) -> None:
        """Mark a pod once other GPUs are published."""
        self._waiting[pod] = None

    def reports_written(self, pod: Uid, annotations: Mapping[str, str]) -> None:
        """Record the reports that a pod has now."""
        self._written[pod] = annotations

    def mark_all_dirty(self) -> None:
        """Mark all pods with reports."""
        self.dirty.update(key for key in self._uses if key[0] in self._namespaces)

    def view(self, key: Key, *, pods: Mapping[Key, Pod], claims: Mapping[Key, ResourceClaim]) -> PodReportView | None:
        """Return the view for a decision about a pod; None if the pod has no reports."""
        pod = pods.get(key)
        if pod is None or key[0] not in self._namespaces:
            return None
        used = (claims.get(claim) for claim in self._uses.get(key, ()))
        return PodReportView(
            pod=pod,
            claims=tuple(claim for claim in used if claim is not None),
            cards=self._cards,
            written=self._written.get(pod.metadata.uid, {}),
        )

    def _cards_changed(self) -> None:
        self.dirty.update(self._waiting)
        self._waiting.clear()

    def _forget_uses(self, pod: Key) -> None:
        for claim in self._uses.pop(pod, ()):
            del self._users[claim][pod]
            if not self._users[claim]:
                del self._users[claim]
