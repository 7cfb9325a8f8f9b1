"""Requests for bound CPUs: the QoS classes LSE and LSR, the CPUs of the containers, and the annotation resource-spec.

A pod has one claim for all of its CPUs, as many as kube-scheduler counts for the pod: the sum of containers and
sidecars, or more if an init container needs more. Each container asks for whole CPUs: of two containers with half a CPU
each, the pod would be bound to a CPU that neither may use completely. If the pod has CPUs of its own
(``spec.resources``), then these count, and its containers share them as they like. The overhead of a RuntimeClass comes
on top, in whole CPUs.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from dra.api.koordinator import resource_spec, well_known
from dra.api.koordinator.resource_spec import MalformedWordsError, WordAnnotation
from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.engine.translation import classes, pod_fields
from dra.engine.translation.pod_fields import ContainerFields
from dra.engine.translation.requests import MAX_CPUS, ClaimEntry, CpuBinding, Refusal
from dra.model import quantities
from dra.model.koordinator_classes import NumaTopologyPolicy

CLAIM_NAME: Final = "koord-cpus"
ALIGNED_CLAIM_NAME: Final = "koord-numa"
CLAIM_NAMES: Final = (CLAIM_NAME, ALIGNED_CLAIM_NAME)
"""Names of the entries that a pod with bound CPUs may have; a pod with one of these is translated already."""

NO_CPUS_PATH: Final = "spec.containers"
POD_PATH: Final = "spec.resources"
OVERHEAD_PATH: Final = "spec.overhead.cpu"
WHOLE_TEXT: Final = f"the requested CPUs of {{qos}} Pod must be integer, from 0 to {MAX_CPUS}"
LIMIT_TEXT: Final = "must equal requests.cpu: the CPUs of {qos} Pod are its own; set both to the same number"
DECLARED_TEXT: Final = (
    f"{{qos}} Pod must declare the requested CPUs, 1 to {MAX_CPUS} altogether; "
    f"set requests.cpu, or annotation {well_known.ANNOTATION_CPUS}={well_known.OWN_CPUS} if the pod has claims for CPUs"
)
RESIZE_TEXT: Final = "the CPUs of a Pod are as many as its claim has; create a new pod to change the number"


def annotation_path(name: str) -> str:
    """Return the path of an annotation."""
    return f"metadata.annotations[{name}]"


def annotation_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of the annotations resource-spec and numa-topology-spec, for pods of any QoS class."""
    refusals = []
    for kind in (resource_spec.RESOURCE_SPEC, resource_spec.NUMA_TOPOLOGY_SPEC):
        try:
            _words(pod, kind)
        except MalformedWordsError as error:
            path = annotation_path(kind.name)
            refusals += [Refusal(f"{path}.{field}" if field else path, text) for field, text in error.faults]
    return refusals


def cpu_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of the CPUs that the containers of a bound pod ask for, at most one for each container."""
    qos = classes.bound_class(pod)
    if qos is None or has_own_cpus(pod):
        return []
    values, refusals = {"qos": qos.name}, []
    whole = _cpus_of_pod(pod)
    counted = [
        (container.path, container.requested("cpu"), container.limits.get("cpu", 0))
        for container in pod_fields.containers(pod)
    ]
    for path, requested, limit in counted if whole is None else [(POD_PATH, *whole)]:
        cpus = pod_fields.integer(requested or 0)
        if cpus is None or not 0 <= cpus <= MAX_CPUS:
            refusals.append(Refusal(f"{path}.requests.cpu", WHOLE_TEXT.format_map(values)))
        elif pod_fields.amount(limit) != cpus:
            refusals.append(Refusal(f"{path}.limits.cpu", LIMIT_TEXT.format_map(values)))
    overhead = pod_fields.integer(_overhead(pod))
    if overhead is None or not 0 <= overhead <= MAX_CPUS:
        refusals.append(Refusal(OVERHEAD_PATH, WHOLE_TEXT.format_map(values)))
    if refusals:
        return refusals
    # Only now: a sum of amounts that were refused would repeat the refusals.
    if not 1 <= (cpus := _cpus(pod)) <= MAX_CPUS - (overhead or 0):
        refusals.append(Refusal(NO_CPUS_PATH, DECLARED_TEXT.format_map(values)))
    requested = pod_fields.pod_amounts(pod, "requests").get("cpu", cpus)
    if whole is None and pod_fields.amount(requested) != cpus:
        refusals.append(Refusal(f"{POD_PATH}.limits.cpu", LIMIT_TEXT.format_map(values)))
    return refusals


def resize_refusals(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of an update: a pod that is bound to CPUs keeps the number of its claim."""
    if pod_fields.claim_names(new).isdisjoint(CLAIM_NAMES):
        return []
    before, after = dict(_cpu_amounts(old)), dict(_cpu_amounts(new))
    return [Refusal(path, RESIZE_TEXT) for path, amount in after.items() if before.get(path, amount) != amount]


def _cpu_amounts(pod: Mapping[str, Any]) -> Iterator[tuple[str, Fraction | None]]:
    """Yield path and amount of each request and limit for CPUs in the resources of a pod."""
    parts = [(container.path, container.requests, container.limits) for container in pod_fields.containers(pod)]
    parts.append((POD_PATH, pod_fields.pod_amounts(pod, "requests"), pod_fields.pod_amounts(pod, "limits")))
    for path, requests, limits in parts:
        yield f"{path}.requests.cpu", pod_fields.amount(requests.get("cpu", 0))
        yield f"{path}.limits.cpu", pod_fields.amount(limits.get("cpu", 0))


def cpu_entry(pod: Mapping[str, Any]) -> ClaimEntry | None:
    """Return the entry for the CPUs of a pod without refusals; None if the pod is not bound, or has the entry."""
    qos = classes.bound_class(pod)
    if qos is None or has_own_cpus(pod) or not pod_fields.claim_names(pod).isdisjoint(CLAIM_NAMES):
        return None
    word = bind_word(pod)
    if word == resource_spec.CONSTRAINED_BURST:
        return None
    words = _words(pod, resource_spec.RESOURCE_SPEC)
    required = words.get(resource_spec.REQUIRED_BIND_POLICY)
    policy = None if word == resource_spec.DEFAULT else CpuBindPolicy(word)
    binding = CpuBinding(
        cpus=_cpus(pod) + (pod_fields.integer(_overhead(pod)) or 0),
        policy=policy,
        required=required is not None,
        exclusivity=CpuExclusivePolicy(words.get(resource_spec.EXCLUSIVE_POLICY, CpuExclusivePolicy.NONE)),
        qos=qos,
    )
    return ClaimEntry(CLAIM_NAME, binding, tuple(container.at for container in pod_fields.containers(pod)))


def bind_word(pod: Mapping[str, Any]) -> str:
    """Return the word for the bind policy in the annotation of a pod without refusals."""
    words = _words(pod, resource_spec.RESOURCE_SPEC)
    required, preferred = words.get(resource_spec.REQUIRED_BIND_POLICY), words.get(resource_spec.PREFERRED_BIND_POLICY)
    return required or preferred or resource_spec.DEFAULT


def has_own_cpus(pod: Mapping[str, Any]) -> bool:
    """Report whether a pod names its claims for CPUs itself."""
    return pod_fields.annotations(pod).get(well_known.ANNOTATION_CPUS) == well_known.OWN_CPUS


def numa_policy(pod: Mapping[str, Any]) -> NumaTopologyPolicy:
    """Return the NUMA policy that a pod asks for; none from a malformed annotation, which is refused."""
    try:
        words = _words(pod, resource_spec.NUMA_TOPOLOGY_SPEC)
    except MalformedWordsError:
        return NumaTopologyPolicy.NONE
    return NumaTopologyPolicy(words.get(resource_spec.NUMA_TOPOLOGY_POLICY, NumaTopologyPolicy.NONE))


def _words(pod: Mapping[str, Any], kind: WordAnnotation) -> dict[str, str]:
    text = pod_fields.annotations(pod).get(kind.name)
    return {} if text is None else resource_spec.parse_words(kind, text)


def _cpus(pod: Mapping[str, Any]) -> int:
    """Return the CPUs of a pod without refusals of its containers, as kube-scheduler counts them before overhead."""
    whole = _cpus_of_pod(pod)
    return pod_fields.integer(_total(pod, ContainerFields.cpu_request) if whole is None else whole[0]) or 0


def _overhead(pod: Mapping[str, Any]) -> object:
    """Return the CPUs that the RuntimeClass of a pod takes for itself; admission has set these before any policy."""
    return pod_fields.mapping(pod_fields.mapping(pod.get("spec")).get("overhead")).get("cpu", 0)


def _cpus_of_pod(pod: Mapping[str, Any]) -> tuple[object, object] | None:
    """Return request and limit of a pod that has a limit for CPUs of its own; None if those of its containers count.

    The API server fills in what is missing, from 1.37 on only after the policies that change pods: as request the total
    of the containers, or else the limit; as limit the total of the containers, if all have one, but no less than the
    request (``DefaultPodLevelResources``).
    """
    requests, limits = (pod_fields.pod_amounts(pod, kind) for kind in ("requests", "limits"))
    if not requests and not limits:
        return None
    containers = tuple(pod_fields.containers(pod))
    asks = any(container.requested("cpu") is not None for container in containers)
    otherwise = _total(pod, ContainerFields.cpu_request) if asks else limits.get("cpu")
    request, limit = requests.get("cpu", otherwise), limits.get("cpu")
    if limit is None and request is not None and all("cpu" in container.limits for container in containers):
        limit = max(request, _total(pod, ContainerFields.cpu_limit), key=lambda amount: pod_fields.amount(amount) or 0)
    return None if limit is None else (request, limit)


def _total(pod: Mapping[str, Any], of: Callable[[ContainerFields], object]) -> str:
    """Return a number of CPUs of all containers as a quantity; what is no quantity counts as 0."""
    running = sidecars = starting = Fraction(0)
    for container in pod_fields.containers(pod):
        cpus = pod_fields.amount(of(container)) or Fraction(0)
        if container.at[0] == "containers":
            running += cpus
        elif container.is_sidecar:
            sidecars += cpus
        else:
            starting = max(starting, sidecars + cpus)
    return quantities.canonical(max(running + sidecars, starting), quantities.Format.DECIMAL_SI)
