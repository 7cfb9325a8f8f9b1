"""Checks the steps of a downgrade outside of the claims; a step counts as done when the cluster shows it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.connection import Connection, controller_pid, server_time
from dra.cli.kubectl.downgrade import stand_down
from dra.cli.kubectl.downgrade.survey import OWN_PREFIX, DowngradeSurvey
from dra.cli.kubectl.gate.opt_in import GATE_LABEL
from dra.cli.kubectl.preflight import stock_controller, stock_controller_reader
from dra.cli.kubectl.preflight.controller import find_deployments
from dra.engine.claims.downgrade import DowngradeAssessment, DowngradeState
from dra.engine.claims.reasons import list_names
from dra.engine.colocation.cache import offered_batch
from dra.engine.diagnosis.snapshot import InstalledDeployment
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice
from dra.kube.client import Client, Selection
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden
from dra.kube.lease_rules import Lease
from dra.kube.resources import NODES
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.node_pods import AgentNode
from dra.model.references import GroupResource
from dra.model.workload_reservations import FORCE_RELEASE, PRE_LIST, RESERVED_FOR, RESERVED_FOR_UID, WHEN_SUSPENDED
from dra.model.workload_types import JOBS, WORKLOAD_TYPES

_LEASE_FLAGS: Final = {"lease_namespace": NAMESPACE, "lease_name": LEASE_NAME}
"""Options that name the controllers' lease → their defaults."""


def repeated_flags(*, namespace: str | None, lease: Key) -> str:
    """Return the options for the namespace and the lease that a printed command repeats."""
    flags = ["-n", namespace] if namespace else []
    for name, value in zip(_LEASE_FLAGS, lease, strict=True):
        if value != _LEASE_FLAGS[name]:
            flags += [f"--{name.replace('_', '-')}", value]
    return "".join(f" {shlex.quote(flag)}" for flag in flags)


def apply_command(flags: str = "") -> SafeCommand:
    """Return the command that converts what can be converted; `given` are the options of the question."""
    return SafeCommand(f"kubectl dra downgrade --apply{flags}")


def purge_command(flags: str = "") -> SafeCommand:
    """Return the command that leaves nothing of dra-reserve behind."""
    return SafeCommand(f"kubectl dra downgrade --apply --purge{flags}")


def adopt_command(lease: Key) -> SafeCommand:
    """Return the command that lets the controllers of a lease act again."""
    return SafeCommand(f"kubectl dra adopt{repeated_flags(namespace=None, lease=lease)}")


_SCALABLE_KINDS: Final = frozenset(workload_type.resource for workload_type in WORKLOAD_TYPES if workload_type.scalable)


def claim_remedy(assessment: DowngradeAssessment, flags: str = "") -> Remedy | None:
    """Return the next step for a claim; None if nothing is to be done. `given` are the options of the question."""
    match assessment.state:
        case DowngradeState.CONVERTIBLE | DowngradeState.ORPHAN:
            return apply_command(flags)
        case DowngradeState.TOO_MANY:
            return WeighedChoice(_scale_down_text(assessment))
        case DowngradeState.OWNER:
            return _kept_claim_remedy(assessment)
        case DowngradeState.NODE:
            return SafeCommand(f"kubectl get nodes {' '.join(assessment.nodes)}")
        case _:
            return None


def _scale_down_text(assessment: DowngradeAssessment) -> str:
    """Return how to reduce the workload to the pods that a list has room for; the work of the other pods ends."""
    namespace, workload, free_entries = assessment.claim[0], assessment.workload, assessment.capacity
    ending = (
        f"let at most {free_entries} pods use the claim, which ends the work of the others, or wait for pods to end"
    )
    if workload is not None and workload.group_resource == JOBS:
        return f"{ending}: spec.parallelism {free_entries} of {workload} in {namespace}"
    if workload is not None and workload.group_resource in _SCALABLE_KINDS:
        return f"{ending}: spec.replicas {free_entries} of {workload} in {namespace}"
    return f"{ending}. See: kubectl get pods -n {namespace}"


def _kept_claim_remedy(assessment: DowngradeAssessment) -> Remedy:
    namespace, name = assessment.claim
    if assessment.foreign_entries:
        entries = ", ".join(f"{entry} (uid {entry.uid})" for entry in assessment.foreign_entries)
        return WeighedChoice(
            f"remove {entries} from status.reservedFor of claim {name} in {namespace} if they no longer use its "
            "devices; otherwise two workloads share the devices"
        )
    if assessment.consuming or assessment.pending:
        return SafeCommand(f"kubectl get pods -n {namespace}")
    return WeighedChoice(
        f"have the workload's controller release claim {name}, or give up its reservation with --apply --give-up "
        f"{namespace}/{name}; other claims may then get the devices"
    )


PART_OF_SELECTOR: Final = "app.kubernetes.io/part-of=dra-reserve"

PLUGIN_POLICIES: Final = frozenset(
    f"{name}.reserve.dra"
    for name in (
        "own-claims",
        "own-devices",
        "own-events",
        "own-node-labels",
        "own-node-metrics",
        "own-slices",
        "own-topologies",
    )
)
"""Policies that belong to the kubelet plugin, which continues to run."""

INSTALLATION_POLICIES: Final = frozenset(
    f"{name}.reserve.dra"
    for name in (
        *("entries", "releases", "annotations", "references", "reports", "own-reports"),
        *("controller-pods", "controller-nodes", "controller-claims", "controller-leases", "controller-node-metrics"),
        *("reservations", "reservation-sizes", "reservation-writers", "owners", "foreign-owners"),
        *("preemption", "placeholders"),
        *("extender-writes", "extender-bindings", "extender-objects", "controller-reservations"),
        *("controller-templates", "controller-evictions", "koordinator-classes"),
        *("migrations", "migration-sizes", "migration-writers"),
        *("descheduler-jobs", "descheduler-reservations", "descheduler-pods", "descheduler-leases"),
        *("batch-pods", "batch-pods-limit-ranges"),
    )
)
"""Policies that are installed and deleted with the manifests.

They limit no stock component and make no pod wait: they may stay until the manifests are deleted. The policies
gate.reserve.dra, koordinator-requests.reserve.dra and profiles.reserve.dra are none of them: pods would wait for a gate
to be removed, for a template to be made, or for batch resources that no controller computes.
"""

_ADMISSION_API_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = (
    "mutatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingadmissionpolicies",
)
_USER_ANNOTATIONS: Final = frozenset({RESERVED_FOR, RESERVED_FOR_UID, PRE_LIST, FORCE_RELEASE, WHEN_SUSPENDED})
_NAMESPACES: Final = GroupResource(resource="namespaces")
_CRDS: Final = GroupResource(resource="customresourcedefinitions", group="apiextensions.k8s.io")
_RBAC_API_GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeCheckOptions:
    """The options of the checks: the lease, and how much of dra-reserve must be gone."""

    lease: Key
    probe: bool = False
    purge: bool = False
    """Whether nothing of dra-reserve may remain, not even what a return needs."""
    repeated_flags: str = ""
    """Options of the command line that a printed command repeats."""


async def run_checks(
    connection: Connection, survey: DowngradeSurvey, options: DowngradeCheckOptions
) -> list[CheckResult]:
    """Check every step; raise ApiError."""
    client = connection.client
    discovery = Discovery(client)
    now = await server_time(connection.transport) or connection.clock.wall()
    evidence = await stock_controller_reader.find_stock_controller(client, now=now, probing=options.probe)
    findings = [
        judge_claims(survey, options.repeated_flags),
        await check_controllers(client, options),
        stock_controller.judge_stock_controller(evidence, replace=False, back=True),
        await _check_policies(client, discovery, options),
        await _check_namespaces(client, discovery),
        judge_gates(survey, options.repeated_flags),
        judge_nodes(survey, options.repeated_flags),
        judge_batch_nodes([node async for page in client.list_pages(NODES, AgentNode) for node in page.items]),
        judge_annotations(survey, purge=options.purge, flags=options.repeated_flags),
    ]
    if options.purge:
        findings += [await _check_crds(client, discovery), await _check_installation(client, discovery, options)]
    return findings


def judge_claims(survey: DowngradeSurvey, flags: str = "") -> CheckResult:
    """Judge the claims as a whole; the table shows each claim by itself."""
    left = [assessment for assessment in survey.assessments if assessment.state is not DowngradeState.READY]
    if not left:
        count = len(survey.assessments)
        return CheckResult(check="claims", state=CheckState.OK, detail=f"all {count} claims work with stock Kubernetes")
    by_state = {state: sum(assessment.state is state for assessment in left) for state in DowngradeState}
    detail = ", ".join(f"{count} {state.value}" for state, count in by_state.items() if count)
    movable = any(by_state[state] for state in (DowngradeState.CONVERTIBLE, DowngradeState.ORPHAN))
    remedy = apply_command(flags) if movable else WeighedChoice("see the claims above")
    return CheckResult(check="claims", state=CheckState.MISSING, detail=detail, remedy=remedy)


async def check_controllers(client: Client, options: DowngradeCheckOptions) -> CheckResult:
    """Check whether our controllers may act; raise ApiError."""
    lease = await stand_down.get_lease(client, options.lease)
    try:
        deployments = await find_deployments(client)
    except Forbidden as error:
        error.subject = "deployments.apps (to find the controllers of dra-reserve)"
        raise
    return judge_controllers(lease, deployments, options, pid=await controller_pid(client))


def judge_controllers(
    lease: Lease | None,
    deployments: Sequence[InstalledDeployment],
    options: DowngradeCheckOptions,
    *,
    pid: int | None = None,
) -> CheckResult:
    """Judge whether our controllers may act; `pid` is that of a local plane's controller, which takes no lease."""
    check, where = "controller", "/".join(options.lease)
    installed = bool(deployments)
    ready = sum(deployment.ready for deployment in deployments)
    desired = sum(deployment.desired for deployment in deployments)
    names = list_names("/".join(deployment.key) for deployment in deployments)
    remove = WeighedChoice(
        f"delete Deployment {names} when no claim needs it: afterwards no controller removes gates or updates lists"
    )
    holder = lease.spec.holder_identity if lease is not None else ""
    if pid is not None:
        detail = f"the controller of the local plane runs (pid {pid}): it uses no lease, and lists workloads again"
        return CheckResult(check=check, state=CheckState.WARNING, detail=detail)
    # A replica that becomes Ready later finds the annotation of the lease, which every downgrade sets first.
    if installed and not ready and (lease is None or not (desired or holder or lease.is_stood_down)):
        since = "none has led so far" if lease is None else f"none holds lease {where}"
        detail = f"Deployment {names} has no Ready replica, and {since}; it can be deleted"
        verdict = CheckState.MISSING if options.purge else CheckState.OK
        return CheckResult(check=check, state=verdict, detail=detail, remedy=remove if options.purge else None)
    if lease is not None and not lease.is_stood_down and (holder or installed):
        detail = f"{holder or 'a Deployment'} does not stand down (lease {where})"
        return CheckResult(
            check=check, state=CheckState.MISSING, detail=detail, remedy=apply_command(options.repeated_flags)
        )
    if lease is None and installed:
        detail = f"is installed, but no lease {where} shows whether it runs"
        return CheckResult(check=check, state=CheckState.MISSING, detail=detail, remedy=remove)
    if installed:
        detail = f"stands down (lease {where}); its Deployment can be deleted"
        verdict = CheckState.MISSING if options.purge else CheckState.OK
        return CheckResult(check=check, state=verdict, detail=detail, remedy=remove if options.purge else None)
    detail = f"stands down (lease {where})" if lease is not None and lease.is_stood_down else "not installed"
    return CheckResult(check=check, state=CheckState.OK, detail=detail)


async def _check_policies(client: Client, discovery: Discovery, options: DowngradeCheckOptions) -> CheckResult:
    installed, theirs = [], PLUGIN_POLICIES if options.purge else PLUGIN_POLICIES | INSTALLATION_POLICIES
    for plural in _POLICIES:
        objects = await _list_objects(client, discovery, GroupResource(resource=plural, group=_ADMISSION_API_GROUP))
        names = (policy.metadata.name for policy in objects)
        installed += [f"{plural}/{name}" for name in names if name.endswith(".reserve.dra") and name not in theirs]
    if not installed:
        return CheckResult(check="policies", state=CheckState.OK, detail="no policy makes pods wait")
    return CheckResult(
        check="policies",
        state=CheckState.MISSING,
        detail=f"still installed: {list_names(installed)}",
        remedy=WeighedChoice(f"delete {' '.join(installed)}: afterwards they apply to no namespace of the cluster"),
    )


async def _check_namespaces(client: Client, discovery: Discovery) -> CheckResult:
    asking = [
        namespace.metadata.name for namespace in await _list_objects(client, discovery, _NAMESPACES, labels=GATE_LABEL)
    ]
    if not asking:
        return CheckResult(check="namespaces", state=CheckState.OK, detail="no namespace requests the gate")
    remedy = WeighedChoice(
        f"tell the owners of {list_names(asking)}, and remove label {GATE_LABEL} and the gates (kubectl dra ungate "
        "--help): otherwise new pods there never start"
    )
    detail = f"{list_names(asking)} request the gate"
    return CheckResult(check="namespaces", state=CheckState.MISSING, detail=detail, remedy=remedy)


def judge_gates(survey: DowngradeSurvey, flags: str = "") -> CheckResult:
    """Judge the pods behind our scheduling gate: without a controller they wait forever."""
    if not survey.gated:
        return CheckResult(check="gates", state=CheckState.OK, detail="no pod has the gate")
    pods = list_names("/".join(pod.key) for pod in survey.gated.values())
    detail = f"pods that wait for the removal of the gate: {pods}"
    return CheckResult(check="gates", state=CheckState.MISSING, detail=detail, remedy=apply_command(flags))


def judge_nodes(survey: DowngradeSurvey, flags: str = "") -> CheckResult:
    """Judge the nodes that the controller keeps from autoscalers: without a controller they stay, and their cost."""
    if not survey.annotated_nodes:
        return CheckResult(check="nodes", state=CheckState.OK, detail="no node is kept from autoscalers")
    names = list_names(node.metadata.name for node in survey.annotated_nodes)
    detail = f"kept from autoscalers by annotations of dra-reserve: {names}"
    return CheckResult(check="nodes", state=CheckState.MISSING, detail=detail, remedy=apply_command(flags))


def judge_batch_nodes(nodes: Sequence[AgentNode]) -> CheckResult:
    """Judge the nodes that offer batch resources: without a controller, pods are placed by the last values for ever.

    They are no work that is left: batch pods that run need them, and koord-manager may compute them.
    """
    check = "batch resources"
    offering = [node.metadata.name for node in nodes if not offered_batch(node).is_absent]
    if not offering:
        return CheckResult(check=check, state=CheckState.OK, detail="no node offers batch resources")
    return CheckResult(
        check=check,
        state=CheckState.WARNING,
        detail=f"offered by {list_names(sorted(offering))}: what they offer no longer follows what they use",
        remedy=WeighedChoice(
            "switch colocation off in the ConfigMap before the controller stands down and the kubelet plugin goes, "
            f"unless koord-manager computes them; no pod ends by that: {page_url('how-to/colocation.md')}#turn-it-off"
        ),
    )


def judge_annotations(survey: DowngradeSurvey, *, purge: bool, flags: str = "") -> CheckResult:
    """Judge our annotations and finalizers; annotations of users are harmless, and ``adopt`` needs them."""
    check, finalized = "annotations", survey.with_finalizers
    if finalized:
        detail = f"finalizers {OWN_PREFIX}* on {list_names('/'.join(key) for key in sorted(finalized))}"
        return CheckResult(
            check=check,
            state=CheckState.MISSING,
            detail=detail,
            remedy=WeighedChoice("remove these finalizers: no dra-reserve controller will"),
        )
    by_people = [key for key, noted in survey.annotated_claims.items() if _USER_ANNOTATIONS.intersection(noted)]
    left = [f"{len(survey.annotated_claims)} claims" if survey.annotated_claims else ""]
    left += [f"{len(survey.annotated_pods)} pods" if survey.annotated_pods else ""]
    where = " and ".join(filter(None, left))
    if not where:
        return CheckResult(
            check=check,
            state=CheckState.OK,
            detail="claims and pods have no annotations or finalizers of dra-reserve",
        )
    if purge:
        remedy = purge_command(flags)
        return CheckResult(check=check, state=CheckState.MISSING, detail=f"{OWN_PREFIX}* on {where}", remedy=remedy)
    detail = f"{OWN_PREFIX}* on {where}: no effect now, needed by adopt ({len(by_people)} claims name a workload)"
    return CheckResult(check=check, state=CheckState.OK, detail=detail)


async def _check_crds(client: Client, discovery: Discovery) -> CheckResult:
    crds = await _list_objects(client, discovery, _CRDS, labels=PART_OF_SELECTOR)
    names = [crd.metadata.name for crd in crds]
    if not names:
        return CheckResult(check="CRDs", state=CheckState.OK, detail="none of dra-reserve")
    remedy = WeighedChoice(
        f"delete {list_names(names)} when none of their objects is needed: this deletes all objects, in every namespace"
    )
    return CheckResult(
        check="CRDs", state=CheckState.MISSING, detail=f"{list_names(names)}, and all objects", remedy=remedy
    )


async def _check_installation(client: Client, discovery: Discovery, options: DowngradeCheckOptions) -> CheckResult:
    names = []
    for plural in ("clusterroles", "clusterrolebindings"):
        kind = GroupResource(resource=plural, group=_RBAC_API_GROUP)
        names += [
            f"{plural}/{e.metadata.name}" for e in await _list_objects(client, discovery, kind, labels=PART_OF_SELECTOR)
        ]
    namespaces = [e.metadata.name for e in await _list_objects(client, discovery, _NAMESPACES, labels=PART_OF_SELECTOR)]
    names += [f"namespaces/{name}" for name in namespaces if name == options.lease[0]]
    if not names:
        return CheckResult(check="installation", state=CheckState.OK, detail="no roles and no namespace of dra-reserve")
    remedy = WeighedChoice(f"delete {' '.join(names)}; deleting a namespace deletes everything in it")
    return CheckResult(check="installation", state=CheckState.MISSING, detail=list_names(names), remedy=remedy)


async def _list_objects(
    client: Client, discovery: Discovery, kind: GroupResource, *, labels: str = ""
) -> list[PartialObjectMetadata]:
    """Return the objects of a kind, none where the server does not have it; raise ApiError."""
    resource = await discovery.resolve(kind)
    if resource is None:
        return []
    try:
        pages = client.list_pages(resource, PartialObjectMetadata, selection=Selection(labels=labels))
        return [item async for page in pages for item in page.items]
    except Forbidden as error:
        error.subject = f"{kind} (to find objects of dra-reserve)"
        raise
