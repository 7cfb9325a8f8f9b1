"""Redacts what only descheduling reads: images and volumes become numbers, labels stay where a selector names them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dra.engine.descheduling.pods import (
    ContainerState,
    DeschedulingContainer,
    DeschedulingContainerStatus,
    DeschedulingPod,
    RunningState,
)
from dra.engine.diagnosis.descheduling_snapshot import DeschedulingFacts, DeschedulingSnapshot
from dra.engine.migration.view import MigrationVolume
from dra.model.meta import ObjectMeta
from dra.model.preemption import LabelSelector
from dra.model.volumes import PersistentVolumeClaim

REASON_LENGTH_MAX: Final = 100
"""Maximum number of characters kept of a container's reason, such as ``CrashLoopBackOff``."""

_METADATA_NAME: Final = "kubernetes.io/metadata.name"
"""Label of a namespace with its name, which is no secret."""


class DeschedulingRedactor:
    """Redacts the pods and the facts of one snapshot; equal texts get equal numbers."""

    def __init__(self, snapshot: DeschedulingSnapshot) -> None:
        facts = snapshot.descheduling or DeschedulingFacts()
        containers = (container for pod in snapshot.pods for container in _containers(pod))
        self._images = _numbers("image", (container.image for container in containers))
        self._volumes = _numbers("volume", (volume.metadata.name for volume in facts.volumes))
        named = (claim.metadata.name for claim in facts.volume_claims)
        used = (name for pod in snapshot.pods for name in _claim_names(pod))
        self._claims = _numbers("claim", (*named, *used))
        self._namespace_labels = {key for selector in _namespace_selectors(snapshot) for key in _keys(selector)}

    def pod(self, pod: DeschedulingPod) -> DeschedulingPod:
        """Return a pod without images, names of volumes and texts of its containers."""
        spec = msgspec.structs.replace(
            pod.spec,
            volumes=[redacted for volume in pod.spec.volumes or () if (redacted := self._volume(volume)) is not None]
            or None,
            containers=self._with_numbers(pod.spec.containers),
            init_containers=self._with_numbers(pod.spec.init_containers),
        )
        status = msgspec.structs.replace(
            pod.status,
            container_statuses=_redact_statuses(pod.status.container_statuses),
            init_container_statuses=_redact_statuses(pod.status.init_container_statuses),
            ephemeral_container_statuses=_redact_statuses(pod.status.ephemeral_container_statuses),
        )
        return msgspec.structs.replace(pod, spec=spec, status=status)

    def facts(self, facts: DeschedulingFacts) -> DeschedulingFacts:
        """Return the facts with numbers for volumes, and with the labels of namespaces that a selector names."""
        return msgspec.structs.replace(
            facts,
            namespaces={name: self._named_labels(labels) for name, labels in facts.namespaces.items()},
            unavailable_budgets=tuple(
                msgspec.structs.replace(budget, metadata=_identity(budget.metadata))
                for budget in facts.unavailable_budgets
            ),
            volumes=tuple(
                msgspec.structs.replace(volume, metadata=ObjectMeta(name=self._volumes[volume.metadata.name]))
                for volume in facts.volumes
            ),
            volume_claims=tuple(map(self._volume_claim, facts.volume_claims)),
        )

    def _volume_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        meta, volume = claim.metadata, claim.spec.volume_name
        number = self._volumes.get(volume, "unknown") if volume else ""
        return PersistentVolumeClaim(
            metadata=ObjectMeta(name=self._claims[meta.name], namespace=meta.namespace, uid=meta.uid),
            spec=msgspec.structs.replace(claim.spec, volume_name=number),
        )

    def _named_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        kept = self._namespace_labels | {_METADATA_NAME}
        return {key: value for key, value in labels.items() if key in kept}

    def _with_numbers(self, containers: Iterable[DeschedulingContainer] | None) -> list[DeschedulingContainer] | None:
        if containers is None:
            return None
        return [
            msgspec.structs.replace(container, image=self._images.get(container.image, "")) for container in containers
        ]

    def _volume(self, volume: MigrationVolume) -> MigrationVolume | None:
        """Return the kind of a volume, with the number of its claim; None for a volume that no decision reads."""
        if volume.persistent_volume_claim is not None:
            name = str(volume.persistent_volume_claim.get("claimName", ""))
            return MigrationVolume(persistent_volume_claim={"claimName": self._claims.get(name, "")})
        if volume.ephemeral is not None:
            return MigrationVolume(ephemeral={"redacted": True})
        if volume.empty_dir is not None:
            return MigrationVolume(empty_dir={})
        return MigrationVolume(host_path={}) if volume.host_path is not None else None


def pod_labels_in_selectors(snapshot: DeschedulingSnapshot) -> Iterator[tuple[str, str]]:
    """Yield the labels of pods, and their values, that the constraints of pods and PodUnavailableBudgets name."""
    facts = snapshot.descheduling or DeschedulingFacts()
    for selector in (*_pod_selectors(snapshot), *(budget.spec.selector for budget in facts.unavailable_budgets)):
        if selector is not None:
            yield from (selector.match_labels or {}).items()
            for requirement in selector.match_expressions or ():
                yield requirement.key, ""
                for value in requirement.values or ():
                    yield requirement.key, value
    for pod in snapshot.pods:
        labels = pod.metadata.labels or {}
        for key in _label_keys(pod):
            yield key, labels.get(key, "")


def _pod_selectors(snapshot: DeschedulingSnapshot) -> Iterator[LabelSelector | None]:
    for pod in snapshot.pods:
        yield from (term.label_selector for term in _affinity_terms(pod))
        yield from (constraint.label_selector for constraint in pod.spec.topology_spread_constraints or ())


def _namespace_selectors(snapshot: DeschedulingSnapshot) -> Iterator[LabelSelector]:
    for pod in snapshot.pods:
        yield from (term.namespace_selector for term in _affinity_terms(pod) if term.namespace_selector is not None)


def _affinity_terms(pod: DeschedulingPod) -> Iterator[Any]:
    affinity = pod.spec.affinity
    for kind in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None:
            yield from kind.required_during_scheduling_ignored_during_execution or ()


def _label_keys(pod: DeschedulingPod) -> Iterator[str]:
    """Yield the keys of labels whose values pods compare with one another."""
    for term in (*_affinity_terms(pod), *(pod.spec.topology_spread_constraints or ())):
        yield from term.match_label_keys or ()
        yield from getattr(term, "mismatch_label_keys", None) or ()


def _keys(selector: LabelSelector) -> Iterator[str]:
    yield from selector.match_labels or {}
    yield from (requirement.key for requirement in selector.match_expressions or ())


def _containers(pod: DeschedulingPod) -> Iterator[DeschedulingContainer]:
    yield from pod.spec.containers or ()
    yield from pod.spec.init_containers or ()


def _claim_names(pod: DeschedulingPod) -> Iterator[str]:
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield str(volume.persistent_volume_claim.get("claimName", ""))


def _redact_statuses(
    statuses: Iterable[DeschedulingContainerStatus] | None,
) -> list[DeschedulingContainerStatus] | None:
    if statuses is None:
        return None
    return [
        msgspec.structs.replace(status, state=_redact_state(status.state), last_state=_redact_state(status.last_state))
        for status in statuses
    ]


def _redact_state(state: ContainerState | None) -> ContainerState | None:
    if state is None:
        return None
    waiting, ended = state.waiting, state.terminated
    if waiting is not None:
        waiting = msgspec.structs.replace(waiting, reason=waiting.reason[:REASON_LENGTH_MAX])
    if ended is not None:
        ended = msgspec.structs.replace(ended, reason=ended.reason[:REASON_LENGTH_MAX])
    return ContainerState(waiting=waiting, running=None if state.running is None else RunningState(), terminated=ended)


def _identity(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)


def _numbers(kind: str, texts: Iterable[str]) -> dict[str, str]:
    """Return a number for each text that is not empty, the same for the same texts."""
    return {text: f"{kind}-{number}" for number, text in enumerate(sorted({*texts} - {""}))}
