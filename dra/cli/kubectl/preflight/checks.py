"""Implements the checks of ``kubectl dra preflight``; each check reads a few objects and judges them."""

import asyncio
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final

from dra.api.rbac import NAMESPACE, RolePurpose
from dra.cli.kubectl import local_plane_status
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.preflight import access_review, claim_probe, stock_controller
from dra.cli.kubectl.preflight.access_review import MissingPermissions, ReviewedUser
from dra.cli.kubectl.preflight.stock_controller import ManagedObject, StockControllerEvidence, StockControllerState
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice
from dra.kube.client import Client, Selection, ServerVersion
from dra.kube.clock import SYSTEM
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import CLAIMS, NODES, PODS, Resource
from dra.kube.transport import Request, Transport
from dra.model.claims import ResourceClaim
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Struct, UnstructuredObject
from dra.model.pods import Pod
from dra.model.references import GroupResource

OLDEST_VERSION: Final = (1, 34)
"""First version with resource.k8s.io/v1."""

NEWEST_VERSION: Final = (1, 37)
"""Newest version that the scenarios were run on: docs/reference/kubernetes-versions.md."""

CLOCK_SKEW_MAX: Final = 5.0
"""Seconds that two clocks may differ; the Date of an answer has whole seconds."""

ADMISSION: Final = "admissionregistration.k8s.io"
GATE_POLICY: Final = "gate.reserve.dra"
SYSTEM_NAMESPACE: Final = "kube-system"


class _NodeSystemInfo(Struct, frozen=True):
    container_runtime_version: str = ""
    kubelet_version: str = ""


class _NodeStatus(Struct, frozen=True):
    node_info: _NodeSystemInfo = _NodeSystemInfo()


class NodeSoftware(Struct, frozen=True):
    """A node, reduced to the versions of its software."""

    metadata: ObjectMeta
    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightOptions:
    """The options of the checks: the user, and the mode that the cluster must be ready for."""

    identity: ReviewedUser
    replace: bool
    namespace: str
    probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """The results of all checks, and the permissions that are missing."""

    findings: tuple[CheckResult, ...]
    missing: MissingPermissions


async def run_checks(connection: Connection, wish: PreflightOptions) -> PreflightReport:
    """Run all checks; raise ApiError if the cluster cannot be read."""
    client = connection.client
    discovery = Discovery(client)
    now = await server_time(connection.transport)
    skew = judge_skew(now, SYSTEM.wall())
    wanted = access_review.needed_purposes(replace=wish.replace)
    lacking = await access_review.find_missing_permissions(client, wish.identity, wanted, namespace=wish.namespace)
    found = await asyncio.gather(
        _check_version(client),
        _check_resource_api(discovery),
        _check_stock_controller(client, wish, now=now),
        _check_gate_policy(client, discovery),
        _check_pod_group_api(discovery),
        _check_runtimes(client),
    )
    return PreflightReport(findings=(*found[:2], judge_rights(lacking, wish), *found[2:], skew), missing=lacking)


async def _check_version(client: Client) -> CheckResult:
    return judge_version(await client.version())


def judge_version(version: ServerVersion) -> CheckResult:
    """Judge the version of the API server."""
    digits = [re.match(r"\d*", each) for each in (version.major, version.minor)]
    number = tuple(int(each.group() or 0) for each in digits if each is not None)
    oldest, newest = (".".join(map(str, each)) for each in (OLDEST_VERSION, NEWEST_VERSION))
    if number < OLDEST_VERSION:
        detail = f"Kubernetes {version.git_version}: older than {oldest}, where resource.k8s.io/v1 begins"
        return CheckResult(
            check="version",
            verdict=CheckState.LEFT,
            detail=detail,
            remedy=WeighedChoice(f"upgrade to {oldest} or later"),
        )
    if number > NEWEST_VERSION:
        detail = f"Kubernetes {version.git_version}: newer than {newest}, the last that this was tried on"
        return CheckResult(check="version", verdict=CheckState.WARNING, detail=detail)
    return CheckResult(check="version", verdict=CheckState.OK, detail=f"Kubernetes {version.git_version}")


async def _check_resource_api(discovery: Discovery) -> CheckResult:
    found = await discovery.resolve(GroupResource(resource="resourceclaims", group="resource.k8s.io"))
    if found is not None and found.version == "v1":
        return CheckResult(check="api", verdict=CheckState.OK, detail="resource.k8s.io/v1 is served")
    detail = "resource.k8s.io/v1 is not served" + (f", only {found.version}" if found is not None else "")
    remedy = WeighedChoice("start kube-apiserver with --runtime-config=resource.k8s.io/v1=true")
    return CheckResult(check="api", verdict=CheckState.LEFT, detail=detail, remedy=remedy)


def judge_rights(lacking: MissingPermissions, wish: PreflightOptions) -> CheckResult:
    """Judge the permissions of the user, naming each missing permission."""
    if not lacking:
        return CheckResult(check="rights", verdict=CheckState.OK, detail=f"{wish.identity} may do all that is needed")
    named = [f"{right}" for each in lacking.cluster.values() for right in each]
    named += [f"{right} in namespace {lacking.namespace}" for right in lacking.namespaced]
    only_watches = set(lacking.cluster) <= {RolePurpose.WORKLOADS, RolePurpose.EVICTION} and not lacking.namespaced
    return CheckResult(
        check="rights",
        verdict=CheckState.WARNING if only_watches else CheckState.LEFT,
        detail=f"{wish.identity} may not: {', '.join(dict.fromkeys(named))}",
        remedy=_grant_remedy(wish),
    )


def _grant_remedy(wish: PreflightOptions) -> Remedy:
    """Return the command that grants missing permissions, with the same options; without a user, a choice to weigh."""
    if not wish.identity.name:
        return WeighedChoice(
            "have an administrator grant them: --as with your name and --missing-rights print the YAML"
        )
    mode = " --mode replace" if wish.replace else ""
    whose = f" --as {shlex.quote(wish.identity.name)}"
    where = f" --lease-namespace {shlex.quote(wish.namespace)}" if wish.namespace != NAMESPACE else ""
    return SafeCommand(f"kubectl dra preflight{mode}{whose}{where} --missing-rights | kubectl apply -f -")


async def _check_stock_controller(client: Client, wish: PreflightOptions, *, now: datetime | None) -> CheckResult:
    sign = await find_stock_controller(client, now=now or SYSTEM.wall(), probing=wish.probe)
    return judge_stock_controller(sign, replace=wish.replace)


async def find_stock_controller(client: Client, *, now: datetime, probing: bool) -> StockControllerEvidence:
    """Find out whether the stock claim controller runs; raise ApiError."""
    if (processes := await local_plane_status.companion_processes(client)) is not None:
        return stock_controller.judge_local_plane(processes)
    flags = stock_controller.judge_by_flags(await _list_controller_manager_pods(client))
    if flags is not None:
        return flags
    if probing:
        return stock_controller.judge_by_claim_creator(
            await claim_probe.find_claim_creator(client), seconds=claim_probe.CLAIM_WAIT
        )
    claims: dict[tuple[str, str], ResourceClaim] = {}
    async for page in client.list_pages(CLAIMS, ResourceClaim):
        claims |= {claim.metadata.key: claim for claim in page.items}
    async for pods in client.list_pages(PODS, Pod, selection=Selection(fields="spec.nodeName!=")):
        neglected = stock_controller.judge_by_unlisted_pods(claims, pods.items, now=now)
        if neglected is not None:
            return neglected
    async for traces in client.list_pages(CLAIMS, ManagedObject):
        written = stock_controller.judge_by_managed_fields(traces.items, now=now)
        if written is not None:
            return written
    return stock_controller.assume_enabled()


async def _list_controller_manager_pods(client: Client) -> list[dict[str, object]]:
    selection = Selection(namespace=SYSTEM_NAMESPACE, labels=f"component={stock_controller.CONTROLLER_MANAGER}")
    try:
        pages = [page async for page in client.list_pages(PODS, UnstructuredObject, selection=selection)]
    except (Forbidden, NotFound):
        return []
    return [pod.content for page in pages for pod in page.items]


def judge_stock_controller(sign: StockControllerEvidence, *, replace: bool, back: bool = False) -> CheckResult:
    """Judge the stock claim controller against the wanted mode; with ``back``, no controller of ours will run."""
    told = partial(CheckResult, check="stock controller", detail=sign.detail, sure=sign.sure)
    on = f"take ,-{stock_controller.STOCK_CONTROLLER} out of --controllers of every kube-controller-manager"
    off = WeighedChoice(
        f"append ,-{stock_controller.STOCK_CONTROLLER} to --controllers of every kube-controller-manager, "
        "or use mode alongside"
    )
    if back and sign.local:
        return told(
            verdict=CheckState.WARNING,
            remedy=WeighedChoice("a local plane has no claim controller but ours to go back to"),
        )
    if back and sign.stock is not StockControllerState.ON:
        return told(verdict=CheckState.LEFT, remedy=WeighedChoice(on))
    if sign.stock is StockControllerState.MIXED or (replace and sign.stock is StockControllerState.ON):
        return told(verdict=CheckState.LEFT, remedy=off)
    if sign.stock is StockControllerState.OFF and sign.local and not replace:
        return told(verdict=CheckState.OK)
    if not replace and sign.stock is StockControllerState.OFF:
        return told(verdict=CheckState.LEFT, remedy=WeighedChoice(f"{on}, or use mode replace"))
    return told(verdict=CheckState.OK)


async def _check_gate_policy(client: Client, discovery: Discovery) -> CheckResult:
    """Judge the policy that adds our gate to pods: without it, pods start slower, but as safely."""
    kind = GroupResource(resource="mutatingadmissionpolicies", group=ADMISSION)
    policies = await discovery.resolve(kind)
    if policies is None:
        detail = "no MutatingAdmissionPolicy here (1.36 has it): write the gate into the pod templates"
        return CheckResult(check="gate policy", verdict=CheckState.WARNING, detail=detail)
    bindings = await discovery.resolve(GroupResource(resource="mutatingadmissionpolicybindings", group=ADMISSION))
    installed = await _exists(client, policies) and bindings is not None and await _exists(client, bindings)
    served = f"MutatingAdmissionPolicy {policies.version}"
    if policies.version != "v1":
        detail = f"{served}, the policy needs v1: write the gate into the pod templates"
        return CheckResult(check="gate policy", verdict=CheckState.WARNING, detail=detail)
    if installed:
        return CheckResult(
            check="gate policy", verdict=CheckState.OK, detail=f"{served}, policy {GATE_POLICY} is installed"
        )
    return CheckResult(
        check="gate policy",
        verdict=CheckState.WARNING,
        detail=f"{served}, policy {GATE_POLICY} is not installed: pods start slower, unless they bring the gate",
        remedy=WeighedChoice("apply deploy/policies/gate.yaml: pods of namespaces labelled for it then get the gate"),
    )


async def _exists(client: Client, kind: Resource) -> bool:
    try:
        await client.get(kind, ("", GATE_POLICY), PartialObjectMetadata)
    except NotFound:
        return False
    return True


async def _check_pod_group_api(discovery: Discovery) -> CheckResult:
    found = await discovery.resolve(GroupResource(resource="podgroups", group="scheduling.k8s.io"))
    served = f"scheduling.k8s.io/{found.version} is served" if found else "not served, which is the default"
    return CheckResult(check="PodGroup API", verdict=CheckState.OK, detail=served)


async def _check_runtimes(client: Client) -> CheckResult:
    nodes: Counter[str] = Counter()
    async for page in client.list_pages(NODES, NodeSoftware):
        nodes.update(node.status.node_info.container_runtime_version or "unknown" for node in page.items)
    return judge_runtimes(nodes)


def judge_runtimes(nodes: Counter[str]) -> CheckResult:
    """Judge by the versions of the container runtimes whether they support CDI by default."""
    if not nodes:
        return CheckResult(check="CDI", verdict=CheckState.UNKNOWN, detail="there are no nodes")
    lacking = {version for version in nodes if has_cdi_by_default(version) is False}
    unknown = {version for version in nodes if has_cdi_by_default(version) is None}
    counted = ", ".join(f"{count} × {version}" for version, count in sorted(nodes.items()))
    sure = "by the runtime's version: its configuration is not to be seen from here"
    if lacking:
        detail = f"off by default in {', '.join(sorted(lacking))}; nodes: {counted}"
        todo = "set enable_cdi = true in containerd's configuration on those nodes, or update them to containerd 2"
        return CheckResult(
            check="CDI", verdict=CheckState.WARNING, detail=detail, sure=sure, remedy=WeighedChoice(todo)
        )
    if unknown:
        return CheckResult(check="CDI", verdict=CheckState.UNKNOWN, detail=f"nodes: {counted}", sure=sure)
    return CheckResult(check="CDI", verdict=CheckState.OK, detail=f"on by default; nodes: {counted}", sure=sure)


def has_cdi_by_default(runtime: str) -> bool | None:
    """Report whether a runtime enables CDI by default; None if that is not known."""
    name, _, version = runtime.partition("://")
    major, _, rest = version.partition(".")
    minor = re.match(r"\d+", rest)
    number = (int(major), int(minor.group())) if major.isdecimal() and minor is not None else None
    if number is None:
        return None
    return {"containerd": number >= (2, 0), "cri-o": number >= (1, 23)}.get(name)


async def server_time(transport: Transport) -> datetime | None:
    """Return the API server's time of day from the Date of an answer; None without an answer or a Date."""
    try:
        answer = await transport.send(Request(method="GET", path="/version", timeout=10.0))
    except ApiError:
        return None
    try:
        return parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return None


def judge_skew(there: datetime | None, here: datetime) -> CheckResult:
    """Judge the clock of this machine against the API server's."""
    if there is None:
        return CheckResult(check="clock", verdict=CheckState.UNKNOWN, detail="the API server's answers have no Date")
    apart = (here - there).total_seconds()
    if abs(apart) > CLOCK_SKEW_MAX:
        detail = f"this machine is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} the API server"
        return CheckResult(
            check="clock",
            verdict=CheckState.WARNING,
            detail=detail,
            remedy=WeighedChoice("synchronise the clocks (NTP)"),
        )
    return CheckResult(
        check="clock", verdict=CheckState.OK, detail="this machine and the API server agree within seconds"
    )
