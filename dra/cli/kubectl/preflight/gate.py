"""Checks the policy that adds the scheduling gate to pods, and offers it where many pods share a workload's claim.

Nothing of a running pod shows whether it was created with the gate: the offer may name a namespace whose pod templates
have the gate already.
"""

from collections import Counter
from typing import Final

from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.gate.opt_in import COSTS, ENABLED, GATE_LABEL, GATE_POLICY, WITHOUT_POLICY
from dra.cli.kubectl.preflight.koordinator import ADMISSION
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.reasons import list_names
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client, Selection
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import CLAIMS, NAMESPACES, PODS, Resource
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObjectMetadata, Struct
from dra.model.pods import Pod, claim_names
from dra.model.references import GroupResource, MalformedReferenceError
from dra.model.workload_reservations import workload_reservation

CHECK: Final = "gate policy"

SHARING_PODS_MIN: Final = 32
"""Number of pods of one claim from which on the gate is offered: fewer start within seconds without it."""


_INSTALL: Final = "kubectl dra install --help"


class GateUse(Struct, frozen=True):
    """The policy in a cluster, and the namespaces that ask for it or would gain from it."""

    version: str = ""
    """Version in which MutatingAdmissionPolicies are served; empty if they are not."""

    is_installed: bool = False
    labelled: tuple[str, ...] = ()
    sharing: tuple[tuple[str, int], ...] = ()
    """Namespaces without the label, each with the most pods that share a workload's claim there."""


async def check_gate(client: Client, discovery: Discovery) -> CheckResult:
    """Judge the policy; raise ApiError if the API server cannot be asked."""
    return judge_gate(await read_gate_use(client, discovery))


async def read_gate_use(client: Client, discovery: Discovery) -> GateUse:
    """Read the policy, the labels and who shares claims; what the user may not list is left out."""
    policies = await discovery.resolve(GroupResource(resource="mutatingadmissionpolicies", group=ADMISSION))
    if policies is None or policies.version != "v1":
        return GateUse(version=policies.version if policies is not None else "")
    bindings = await discovery.resolve(GroupResource(resource="mutatingadmissionpolicybindings", group=ADMISSION))
    is_installed = await _exists(client, policies) and bindings is not None and await _exists(client, bindings)
    try:
        labelled = await _labelled_namespaces(client)
        counts = await _sharing_pods(client)
    except Forbidden:
        return GateUse(version=policies.version, is_installed=is_installed)
    sharing = {
        namespace: count for (namespace, _), count in reversed(counts.most_common()) if namespace not in labelled
    }
    return GateUse(
        version=policies.version,
        is_installed=is_installed,
        labelled=labelled,
        sharing=tuple(sorted((name, count) for name, count in sharing.items() if count >= SHARING_PODS_MIN)),
    )


async def _exists(client: Client, kind: Resource) -> bool:
    try:
        await client.get(kind, ("", GATE_POLICY), PartialObjectMetadata)
    except NotFound:
        return False
    return True


async def _labelled_namespaces(client: Client) -> tuple[str, ...]:
    selection = Selection(labels=f"{GATE_LABEL}={ENABLED}")
    pages = client.list_pages(NAMESPACES, PartialObjectMetadata, selection=selection)
    return tuple(sorted([namespace.metadata.name async for page in pages for namespace in page.items]))


async def _sharing_pods(client: Client) -> Counter[Key]:
    """Return for each claim that is reserved for a workload the number of its pods without the gate."""
    reserved = {
        claim.metadata.key
        async for page in client.list_pages(CLAIMS, ResourceClaim)
        for claim in page.items
        if _is_reserved(claim)
    }
    if not reserved:
        return Counter()
    return Counter(
        [
            key
            async for page in client.list_pages(PODS, Pod)
            for pod in page.items
            if SCHEDULING_GATE not in pod.gates and not pod.terminal
            for name in claim_names(pod)
            if (key := (pod.metadata.namespace, name)) in reserved
        ]
    )


def _is_reserved(claim: ResourceClaim) -> bool:
    try:
        return workload_reservation(claim) is not None
    except MalformedReferenceError:
        return False


def judge_gate(use: GateUse) -> CheckResult:
    """Judge the policy: without it, pods start more slowly, and as safely."""
    served = f"MutatingAdmissionPolicy {use.version}" if use.version else "MutatingAdmissionPolicy is not served"
    if use.version != "v1":
        return CheckResult(check=CHECK, state=CheckState.WARNING, detail=f"{served}: {WITHOUT_POLICY}")
    installed = f"{served}, policy {GATE_POLICY} is {'' if use.is_installed else 'not '}installed"
    if use.labelled and not use.is_installed:
        return CheckResult(
            check=CHECK,
            state=CheckState.WARNING,
            detail=f"{installed}, but namespaces ask for it: {list_names(use.labelled)}",
            remedy=WeighedChoice(f"install component gate ({_INSTALL}), or remove the label {GATE_LABEL}"),
        )
    asked = f", for namespaces {list_names(use.labelled)}" if use.labelled else ""
    if not use.sharing:
        state = CheckState.OK if use.is_installed else CheckState.WARNING
        offer = "" if use.is_installed else ": pods without the gate start slower"
        remedy = None if use.is_installed else WeighedChoice(f"use --gate NAMESPACE ({_INSTALL}): {COSTS}")
        return CheckResult(check=CHECK, state=state, detail=f"{installed}{asked}{offer}", remedy=remedy)
    flags = "".join(f" --gate {namespace}" for namespace, _ in use.sharing)
    shared = list_names(f"{count} in {namespace}" for namespace, count in use.sharing)
    return CheckResult(
        check=CHECK,
        state=CheckState.WARNING,
        detail=f"{installed}{asked}; pods without the gate that share a workload's claim start slower: {shared}",
        certainty="a running pod does not show whether it was created with the gate",
        remedy=WeighedChoice(f"use{flags} ({_INSTALL}): {COSTS}"),
    )
