"""Implements the ``kubectl dra preflight`` command."""

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import click

from dra.api.configuration import ControllerMode
from dra.api.rbac import LEASE_NAME, NAMESPACE, SERVICE_ACCOUNT, Permission, RolePurpose
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import checklist
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.connection import Connection, run, server_time
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.preflight import access_review, certificates, gate, next_version, node_kernels
from dra.cli.kubectl.preflight import colocation as colocation_check
from dra.cli.kubectl.preflight import controller as controller_check
from dra.cli.kubectl.preflight import koordinator as koordinator_check
from dra.cli.kubectl.preflight.access_review import MissingPermissions, ReviewedUser
from dra.cli.kubectl.preflight.koordinator import KoordinatorInstallation
from dra.cli.kubectl.preflight.stock_controller import judge_stock_controller
from dra.cli.kubectl.preflight.stock_controller_reader import find_stock_controller
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.snapshots import lease_reader
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice
from dra.kube.client import Client, ServerVersion
from dra.kube.clock import SYSTEM
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import NAMESPACES, NODES, POD_MIGRATION_JOBS, RESERVATIONS
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Struct
from dra.model.references import GroupResource

OLDEST_VERSION: Final = (1, 34)
"""First version with resource.k8s.io/v1."""

NEWEST_VERSION: Final = (1, 37)
"""Newest version that the scenarios were run on: docs/reference/kubernetes-versions.md."""

CLOCK_SKEW_MAX: Final = 5.0
"""Seconds that two clocks may differ; the Date of an answer has whole seconds."""

DESCHEDULER_ACCOUNT: Final = "dra-reserve-descheduler"
"""Service account of the descheduler, in the namespace of its lease."""

CONTROLLER_USER: Final = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
"""User name of the controller's service account in the manifests."""


class _NodeSystemInfo(Struct, frozen=True):
    container_runtime_version: str = ""


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
    replace_mode: bool
    namespace: str
    koordinator: bool = False
    """Whether the controller will run with ``koordinator: true``, even if nothing is installed for it."""

    probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """The results of all checks, and the permissions that are missing."""

    findings: tuple[CheckResult, ...]
    missing: MissingPermissions


async def run_checks(connection: Connection, options: PreflightOptions) -> PreflightReport:
    """Run all checks; raise ApiError if the cluster cannot be read."""
    client = connection.client
    discovery = Discovery(client)
    now = await server_time(connection.transport)
    skew = judge_skew(now, SYSTEM.wall())
    installed = await koordinator_check.find_installation(client, discovery)
    lacking = await _review_permissions(client, options, installed)
    lease = await lease_reader.read_controller_lease(client, (options.namespace, LEASE_NAME))
    controller = await controller_check.find_installation(client, lease)
    results = await asyncio.gather(
        _check_version(client),
        _check_resource_api(discovery),
        _check_stock_controller(client, options, now=now),
        gate.check_gate(client, discovery),
        _check_pod_group_api(discovery),
        _check_runtimes(client),
        _check_migrations(connection, discovery, options),
        _check_certificates(client, now=now),
        colocation_check.check_colocation(client, discovery),
        node_kernels.check_kernels(client, discovery),
    )
    upgrade = await next_version.check_upgrade(client)
    requests = koordinator_check.judge_installation(installed, wanted=options.koordinator)
    rights = judge_rights(
        lacking,
        options,
        installed=controller.exists,
        namespace_exists=bool(lacking) and await _namespace_exists(client, options.namespace),
    )
    works = controller_check.judge_installation(controller, replace=options.replace_mode)
    return PreflightReport(
        findings=(*results[:2], rights, works, *results[2:], requests, *upgrade, skew), missing=lacking
    )


async def _namespace_exists(client: Client, name: str) -> bool:
    """Report whether a namespace exists; where that may not be read, it is taken to exist."""
    try:
        await client.get(NAMESPACES, ("", name), PartialObjectMetadata)
    except NotFound:
        return False
    except Forbidden:
        return True
    return True


async def _review_permissions(
    client: Client, options: PreflightOptions, installed: KoordinatorInstallation
) -> MissingPermissions:
    wanted = access_review.needed_purposes(
        replace=options.replace_mode, koordinator=options.koordinator or installed.exists
    )
    return await access_review.find_missing_permissions(client, options.identity, wanted, namespace=options.namespace)


async def find_obstacles(connection: Connection, *, replace: bool) -> list[CheckResult]:
    """Run the checks that an installation cannot do without; raise ApiError."""
    client = connection.client
    evidence = await find_stock_controller(
        client, now=await server_time(connection.transport) or SYSTEM.wall(), probing=False
    )
    return [
        await _check_version(client),
        await _check_resource_api(Discovery(client)),
        judge_stock_controller(evidence, replace=replace),
    ]


async def _check_version(client: Client) -> CheckResult:
    return judge_version(await client.version())


def judge_version(version: ServerVersion) -> CheckResult:
    """Judge the version of the API server."""
    digits = [re.match(r"\d*", part) for part in (version.major, version.minor)]
    number = tuple(int(match.group() or 0) for match in digits if match is not None)
    oldest, newest = (".".join(map(str, version_pair)) for version_pair in (OLDEST_VERSION, NEWEST_VERSION))
    if number < OLDEST_VERSION:
        detail = f"Kubernetes {version.git_version}: older than {oldest}, the first version with resource.k8s.io/v1"
        return CheckResult(
            check="version",
            state=CheckState.MISSING,
            detail=detail,
            remedy=WeighedChoice(f"upgrade to {oldest} or later"),
        )
    if number > NEWEST_VERSION:
        detail = f"Kubernetes {version.git_version}: newer than {newest}, the newest tested version"
        return CheckResult(check="version", state=CheckState.WARNING, detail=detail)
    return CheckResult(check="version", state=CheckState.OK, detail=f"Kubernetes {version.git_version}")


async def _check_resource_api(discovery: Discovery) -> CheckResult:
    resource = await discovery.resolve(GroupResource(resource="resourceclaims", group="resource.k8s.io"))
    if resource is not None and resource.version == "v1":
        return CheckResult(check="api", state=CheckState.OK, detail="resource.k8s.io/v1 is served")
    detail = "resource.k8s.io/v1 is not served" + (f", only {resource.version}" if resource is not None else "")
    remedy = WeighedChoice("start kube-apiserver with --runtime-config=resource.k8s.io/v1=true")
    return CheckResult(check="api", state=CheckState.MISSING, detail=detail, remedy=remedy)


def judge_rights(
    lacking: MissingPermissions, options: PreflightOptions, *, installed: bool = True, namespace_exists: bool = True
) -> CheckResult:
    """Judge the permissions of the user, naming each missing permission.

    Before an installation, the account of the controller needs none: the installation brings its roles.
    """
    if not lacking:
        return CheckResult(
            check="rights", state=CheckState.OK, detail=f"all required permissions are granted to {options.identity}"
        )
    if not installed and options.identity.name == CONTROLLER_USER:
        return CheckResult(
            check="rights",
            state=CheckState.WARNING,
            detail=f"not granted to {options.identity} yet: the installation brings its account and roles",
        )
    named = [f"{right}" for rights in lacking.cluster.values() for right in rights]
    named += [f"{right} in namespace {lacking.namespace}" for right in lacking.namespaced]
    only_watches = set(lacking.cluster) <= {RolePurpose.WORKLOADS, RolePurpose.EVICTION} and not lacking.namespaced
    return CheckResult(
        check="rights",
        state=CheckState.WARNING if only_watches else CheckState.MISSING,
        detail=f"missing for {options.identity}: {', '.join(dict.fromkeys(named))}",
        remedy=_grant_remedy(options) if namespace_exists or not lacking.namespaced else _NAMESPACE_FIRST,
    )


_NAMESPACE_FIRST: Final = WeighedChoice(
    "create the namespace first, or install dra-reserve (kubectl dra install --help), which creates it with all roles: "
    "a Role cannot be granted in a namespace that does not exist"
)


def _grant_remedy(options: PreflightOptions) -> Remedy:
    """Return the command that grants missing permissions, with the same options; without a user, a choice to weigh."""
    if not options.identity.name:
        return WeighedChoice("ask an administrator to grant them; --as YOUR-NAME --missing-rights prints the YAML")
    mode = (" --mode replace" if options.replace_mode else "") + (" --koordinator" if options.koordinator else "")
    whose = f" --as {shlex.quote(options.identity.name)}"
    where = f" --lease-namespace {shlex.quote(options.namespace)}" if options.namespace != NAMESPACE else ""
    return SafeCommand(f"kubectl dra preflight{mode}{whose}{where} --missing-rights | kubectl apply -f -")


async def _check_stock_controller(client: Client, options: PreflightOptions, *, now: datetime | None) -> CheckResult:
    evidence = await find_stock_controller(client, now=now or SYSTEM.wall(), probing=options.probe)
    return judge_stock_controller(evidence, replace=options.replace_mode)


async def _check_certificates(client: Client, *, now: datetime | None) -> CheckResult:
    try:
        ends = await certificates.find_ends(client)
    except certificates.SecretsUnreadableError as error:
        return CheckResult(check=certificates.CHECK, state=CheckState.UNKNOWN, detail=str(error))
    return certificates.judge_ends(ends, now=now or SYSTEM.wall())


async def _check_pod_group_api(discovery: Discovery) -> CheckResult:
    resource = await discovery.resolve(GroupResource(resource="podgroups", group="scheduling.k8s.io"))
    served = f"scheduling.k8s.io/{resource.version} is served" if resource else "not served (the default)"
    return CheckResult(check="PodGroup API", state=CheckState.OK, detail=served)


async def _check_migrations(connection: Connection, discovery: Discovery, options: PreflightOptions) -> CheckResult:
    """Judge whether migrations can work, if their kind is installed."""
    served = await asyncio.gather(
        *(
            discovery.resolve(GroupResource(resource=resource.plural, group=resource.group))
            for resource in (POD_MIGRATION_JOBS, RESERVATIONS)
        )
    )
    lease = await lease_reader.read_descheduler_lease(connection.client, options.namespace)
    lacking = await _missing_for_descheduler(connection.client, options) if all(served) else ()
    return judge_migrations(
        migrations=served[0] is not None, reservations=served[1] is not None, lease=lease, lacking=lacking
    )


async def _missing_for_descheduler(client: Client, options: PreflightOptions) -> Sequence[Permission]:
    """Return the permissions that the descheduler lacks; none if the user may not review the permissions of others."""
    account = ReviewedUser(name=f"system:serviceaccount:{options.namespace}:{DESCHEDULER_ACCOUNT}")
    try:
        missing = await access_review.find_missing_permissions(
            client, account, (RolePurpose.MIGRATION,), namespace=options.namespace
        )
    except Forbidden:
        return ()
    return missing.cluster.get(RolePurpose.MIGRATION, ())


def judge_migrations(
    *, migrations: bool, reservations: bool, lease: ControllerLease, lacking: Sequence[Permission] = ()
) -> CheckResult:
    """Judge whether migrations can work, by kinds, and by the Lease and the permissions of the descheduler."""
    if not migrations:
        return CheckResult(
            check="migrations", state=CheckState.OK, detail="PodMigrationJobs are not served (the default)"
        )
    if not reservations:
        return CheckResult(
            check="migrations",
            state=CheckState.MISSING,
            detail="PodMigrationJobs are served, but Reservations are not: no room can be held",
            remedy=WeighedChoice(
                "install component reservations (kubectl dra install --help), or migrate with mode EvictDirectly only"
            ),
        )
    if lacking:
        named = ", ".join(map(str, lacking))
        return CheckResult(
            check="migrations",
            state=CheckState.WARNING,
            detail=f"missing for the descheduler: {named}",
            remedy=WeighedChoice(
                "install component descheduler (kubectl dra install --help), which has its roles: "
                "without them migrations fail"
            ),
        )
    if lease.presence is ControllerPresence.RUNNING:
        return CheckResult(check="migrations", state=CheckState.OK, detail=f"{lease.holder} is running")
    if lease.presence is ControllerPresence.UNKNOWN:
        detail = f"lease {lease.name} cannot be read"
        return CheckResult(check="migrations", state=CheckState.UNKNOWN, detail=detail)
    return CheckResult(
        check="migrations",
        state=CheckState.WARNING,
        detail=f"PodMigrationJobs are served, but no descheduler is known to run (lease {lease.name})",
        remedy=WeighedChoice(
            "install component descheduler (kubectl dra install --help), or start it: until then every migration waits"
        ),
    )


async def _check_runtimes(client: Client) -> CheckResult:
    nodes: Counter[str] = Counter()
    async for page in client.list_pages(NODES, NodeSoftware):
        nodes.update(node.status.node_info.container_runtime_version or "unknown" for node in page.items)
    return judge_runtimes(nodes)


def judge_runtimes(nodes: Counter[str]) -> CheckResult:
    """Judge by the versions of the container runtimes whether they support CDI by default."""
    if not nodes:
        return CheckResult(check="CDI", state=CheckState.UNKNOWN, detail="the cluster has no nodes")
    lacking = {version for version in nodes if has_cdi_by_default(version) is False}
    unknown = {version for version in nodes if has_cdi_by_default(version) is None}
    counted = ", ".join(f"{count} × {version}" for version, count in sorted(nodes.items()))
    certainty = "by the version of the runtime; its configuration was not read"
    if lacking:
        detail = f"disabled by default in {', '.join(sorted(lacking))}; nodes: {counted}"
        todo = "set enable_cdi = true in containerd's configuration on those nodes, or update them to containerd 2"
        return CheckResult(
            check="CDI", state=CheckState.WARNING, detail=detail, certainty=certainty, remedy=WeighedChoice(todo)
        )
    if unknown:
        return CheckResult(check="CDI", state=CheckState.UNKNOWN, detail=f"nodes: {counted}", certainty=certainty)
    return CheckResult(
        check="CDI", state=CheckState.OK, detail=f"enabled by default; nodes: {counted}", certainty=certainty
    )


def has_cdi_by_default(runtime: str) -> bool | None:
    """Report whether a runtime enables CDI by default; None if that is not known."""
    name, _, version = runtime.partition("://")
    major, _, rest = version.partition(".")
    minor = re.match(r"\d+", rest)
    number = (int(major), int(minor.group())) if major.isdecimal() and minor is not None else None
    if number is None:
        return None
    return {"containerd": number >= (2, 0), "cri-o": number >= (1, 23)}.get(name)


def judge_skew(api_server_time: datetime | None, local_time: datetime) -> CheckResult:
    """Judge the clock of this machine against the API server's."""
    if api_server_time is None:
        return CheckResult(
            check="clock", state=CheckState.UNKNOWN, detail="responses of the API server have no Date header"
        )
    skew = (local_time - api_server_time).total_seconds()
    if abs(skew) > CLOCK_SKEW_MAX:
        detail = f"this machine is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the API server"
        return CheckResult(
            check="clock",
            state=CheckState.WARNING,
            detail=detail,
            remedy=WeighedChoice("synchronise the clocks (NTP)"),
        )
    return CheckResult(
        check="clock", state=CheckState.OK, detail="this machine and the API server differ by a few seconds at most"
    )


def run_preflight(  # noqa: PLR0913 - one for each option
    *,
    cluster_flags: ClusterFlags,
    output: PrintOptions,
    mode: str,
    koordinator: bool,
    reviewed_user: str,
    own: bool,
    lease_namespace: str,
    probe: bool,
    missing_rights: bool,
) -> None:
    """Run ``kubectl dra preflight``; the declaration describes the options."""
    options = PreflightOptions(
        identity=ReviewedUser(name="" if own else reviewed_user),
        replace_mode=mode == ControllerMode.REPLACE.value,
        namespace=lease_namespace,
        koordinator=koordinator,
        probe=probe,
    )
    if missing_rights:
        lacking = run(cluster_flags, lambda connection: _find_missing_permissions(connection, options))
        if own:
            raise FailedError("--missing-rights requires --as USER")
        if lacking.namespaced and not run(cluster_flags, lambda c: _namespace_exists(c.client, lease_namespace)):
            # `kubectl apply` would create the roles of the cluster and fail at those of the namespace.
            raise FailedError(f"namespace {lease_namespace}: not found, so nothing is printed: {_NAMESPACE_FIRST.text}")
        if lacking:
            click.echo(access_review.rbac_manifest(lacking, options.identity), nl=False)
        else:
            print_to_stderr(f"No permissions are missing for {options.identity}.")
        return
    report = run(cluster_flags, lambda connection: _run_checks(connection, options))
    click.echo(checklist.format_checklist(report.findings, output))
    if not checklist.is_ready(report.findings):
        raise SystemExit(1)


async def _run_checks(connection: Connection, options: PreflightOptions) -> PreflightReport:
    try:
        return await run_checks(connection, options)
    except Forbidden as error:
        raise _access_review_error(error, options) from error


async def _find_missing_permissions(
    connection: Connection, options: PreflightOptions
) -> access_review.MissingPermissions:
    client = connection.client
    try:
        installed = await koordinator_check.find_installation(client, Discovery(client))
        return await _review_permissions(client, options, installed)
    except Forbidden as error:
        raise _access_review_error(error, options) from error


def _access_review_error(error: Forbidden, options: PreflightOptions) -> FailedError:
    if "subjectaccessreviews" in str(error) and options.identity.name:
        return FailedError(f"{error}; run the command as an administrator, or check your own permissions with --self")
    return FailedError(str(error))
