"""Describes requests in Koordinator's form for ``kubectl dra explain pod``: what became of each, and what was given."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dra.api.parameters.cpu_policies import CpuExclusivePolicy
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.translation import EntryDiagnosis, TranslationDiagnosis
from dra.engine.translation.requests import (
    AlignedRequest,
    CpuBinding,
    DeviceTopologyScope,
    GpuShare,
    Request,
    gpu_request_name,
)

_ENABLED_TEXTS: Final = {
    True: "the namespace is enabled",
    False: "the namespace is not enabled",
    None: "whether the namespace is enabled could not be read",
}
_SCOPE_TEXTS: Final = {
    None: "",
    DeviceTopologyScope.PCIE: " of one PCIe root",
    DeviceTopologyScope.NUMA_NODE: " of one NUMA node",
}


def describe_requests(facts: PodDiagnosis) -> Iterator[str]:
    """Yield what became of a pod's requests in Koordinator's form, and the cards and CPUs of all claims of the pod."""
    if facts.translation is not None:
        yield from _translation_lines(facts.translation)
    for card in facts.cards:
        memory = f"{card.memory} of memory" if card.memory else "memory unknown"
        ratio = f" ({card.ratio} %)" if card.ratio else ""
        yield f"  card      {card.device} on node {card.node}: {memory}{ratio}, {card.core} % of compute"
    for cpus in facts.cpus:
        bound = f"CPUs {cpus.cpuset}" if cpus.cpuset else "which ones is not reported"
        yield f"  cpus      {_count_cpus(cpus.count)} of node {cpus.node}: {bound}"


def translation_data(facts: PodDiagnosis) -> dict[str, Any]:
    """Return what became of a pod's requests as data for JSON and YAML; empty for a pod without such requests."""
    translation = facts.translation
    if translation is None:
        return {}
    return {
        "translation": {
            "namespaceEnabled": translation.enabled,
            "entries": [_entry_data(entry) for entry in translation.entries],
            "untranslated": [_entry_data(entry) for entry in translation.untranslated],
            "refusals": [str(refusal) for refusal in translation.refusals],
        }
    }


def request_text(request: Request) -> str:
    """Return what a request asks for."""
    match request:
        case CpuBinding():
            return _cpu_text(request)
        case GpuShare():
            return _gpu_text(request)
        case AlignedRequest():
            return _aligned_text(request)


def _translation_lines(translation: TranslationDiagnosis) -> Iterator[str]:
    for entry in translation.entries:
        yield f"  request   {entry.name}: {_asks(entry)}; {_template_text(entry)}"
    for entry in translation.untranslated:
        yield f"  request   not translated, {_ENABLED_TEXTS[translation.enabled]}: {_asks(entry)}"
    for refusal in translation.refusals:
        yield f"  refused   by the translation, {_ENABLED_TEXTS[translation.enabled]}: {refusal}"


def _asks(entry: EntryDiagnosis) -> str:
    noun = "container" if len(entry.containers) == 1 else "containers"
    return request_text(entry.request) + (f" for {noun} {', '.join(entry.containers)}" if entry.containers else "")


def _template_text(entry: EntryDiagnosis) -> str:
    if entry.claim:
        return f"claim {entry.claim} from template {entry.template}"
    texts = {
        True: "exists, its claim is not made yet",
        False: "does not exist yet",
        None: "could not be read",
    }
    return f"template {entry.template} {texts[entry.template_exists]}"


def _cpu_text(request: CpuBinding) -> str:
    strength = "required" if request.required else "preferred"
    policy = f", {request.policy.value} {strength}" if request.policy is not None else ""
    alone = request.exclusivity
    exclusive = f", exclusive by {alone.value}" if alone is not CpuExclusivePolicy.NONE else ""
    return f"{_count_cpus(request.cpus)} as {request.qos.name}{policy}{exclusive}"


def _gpu_text(request: GpuShare) -> str:
    parts = []
    if request.core is not None:
        parts.append(f"{request.core // request.cards} % of the compute")
    if request.ratio is not None:
        parts.append(f"{request.ratio // request.cards} % of the memory")
    if request.memory_mebibytes is not None:
        parts.append(f"{request.memory_mebibytes // request.cards} MiB")
    cards = "a card" if request.cards == 1 else f"each of {request.cards} cards{_SCOPE_TEXTS[request.scope]}"
    return f"{' and '.join(parts)} of {cards}"


def _aligned_text(request: AlignedRequest) -> str:
    parts = [_cpu_text(request.cpus)] if request.cpus is not None else []
    parts += [f"{_gpu_text(share)} ({gpu_request_name(path)})" for path, share in request.gpus]
    return f"{', '.join(parts)}; on one NUMA node ({request.policy.value})"


def _count_cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"


def _entry_data(entry: EntryDiagnosis) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(entry)
    return content | {"request": request_text(entry.request)}
