"""Simulates the translation of requests in Koordinator's form: pods get claims, and the templates of these are made.

`dra.engine.translation` decides, as the admission policies and the controller do. Only pods in namespaces with the
label ``reserve.dra/koordinator: enabled`` are translated; stored pods have been translated before, if at all.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from dra.api.koordinator import well_known
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.diagnosis.translation import pod_manifest
from dra.engine.translation import template_names, translated_pods
from dra.engine.translation.card_sizes import CardSizes
from dra.engine.translation.requests import AlignedRequest, CpuBinding, Translation
from dra.engine.translation.templates import template_manifest
from dra.model.meta import Key
from dra.model.scheduling import SchedulerPod
from dra.model.templates import ResourceClaimTemplate

ASSUMED_POLICY: Final = CpuBindPolicy.FULL_PCPUS
ASSUMED_TEXT: Final = (
    f"CPUs are bound by {ASSUMED_POLICY}, the default without a configuration: the controller's could not be read; "
    "name the policy with --default-cpu-bind-policy"
)


class RefusedPodError(ValueError):
    """The admission policies would refuse a pod; the text names the fields."""


class SimulatedTranslation:
    """The translation of the pods of one simulation."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._enabled = {name for name, enabled in snapshot.enabled_namespaces.items() if enabled}
        sizes = CardSizes()
        for resource_slice in snapshot.slices:
            sizes.observe_slice(resource_slice)
        self._card_sizes = sizes.by_frequency()
        self._default_policy = snapshot.default_cpu_bind_policy
        self._entries: dict[Key, dict[str, str]] = {}
        self._not_enabled: dict[Key, None] = {}

    def translated(self, pod: SchedulerPod) -> SchedulerPod:
        """Return a new pod as it would be stored; raise RefusedPodError."""
        manifest = pod_manifest(pod)
        translation = translated_pods.translate(manifest)
        if translation == Translation():
            return pod
        key = pod.metadata.key
        if key[0] not in self._enabled:
            self._not_enabled[key] = None
            return pod
        if translation.refusals:
            raise RefusedPodError("; ".join(f"{refusal.path}: {refusal.text}" for refusal in translation.refusals))
        self._entries[key] = {entry.name: template_names.name_of(entry.request) for entry in translation.entries}
        return msgspec.convert(translated_pods.translated_pod(manifest, translation.entries), type(pod))

    def entries(self, pod: Key) -> Mapping[str, str]:
        """Return the entries that a pod got, each with the template of its claim."""
        return self._entries.get(pod, {})

    def templates(self, pod: Key) -> Iterator[ResourceClaimTemplate]:
        """Yield the templates that the controller makes for a translated pod; none for a ratio of unknown cards."""
        for name in self.entries(pod).values():
            request = template_names.parse(name)
            made = request and template_manifest(
                name,
                pod[0],
                request,
                card_sizes=self._card_sizes,
                default_policy=self._default_policy or ASSUMED_POLICY,
            )
            if made:
                yield msgspec.convert(made, ResourceClaimTemplate)

    def notes(self) -> Iterator[str]:
        """Yield lines for users about translated pods and about pods in other namespaces, grouped by their claims."""
        alike: dict[tuple[str, str], list[str]] = {}
        for (namespace, name), entries in self._entries.items():
            claims = ", ".join(f"{entry} from template {template}" for entry, template in entries.items())
            alike.setdefault((namespace, claims), []).append(name)
        for (namespace, claims), names in alike.items():
            yield f"translated: {_pods(namespace, names)}: requests in Koordinator's form became claims: {claims}"
        assuming = [key for key, entries in self._entries.items() if any(map(_takes_default, entries.values()))]
        if assuming and self._default_policy is None:
            yield f"assumed: {_pods(assuming[0][0], [name for _, name in assuming])}: {ASSUMED_TEXT}"
        by_namespace: dict[str, list[str]] = {}
        for namespace, name in self._not_enabled:
            by_namespace.setdefault(namespace, []).append(name)
        for namespace, names in by_namespace.items():
            label = f"{well_known.LABEL_ENABLED}={well_known.ENABLED}"
            yield f"not translated: {_pods(namespace, names)}: namespace {namespace} is not labelled {label}"


def _takes_default(template: str) -> bool:
    """Report whether a template binds CPUs by the cluster's default policy."""
    request = template_names.parse(template)
    binding = request.cpus if isinstance(request, AlignedRequest) else request
    return isinstance(binding, CpuBinding) and binding.policy is None


def _pods(namespace: str, names: list[str]) -> str:
    first = f"{namespace}/{names[0]}"
    return f"pod {first}" if len(names) == 1 else f"{len(names)} pods such as {first}"
