"""Implements ``kubectl dra reserve``, which works like kubectl create for a Reservation."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from dra.api.reservations import model
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.printers import OutputFormat, format_structured, print_to_stderr
from dra.cli.kubectl.snapshots.snapshot_source import DEFAULT_NAMESPACE
from dra.engine.kube_scheduler import pod_requests
from dra.engine.reservations import reservation_info
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, NotFound
from dra.kube.resources import RESERVATIONS
from dra.model import quantities
from dra.model.meta import Struct, UnstructuredObject
from dra.model.references import ConsumerReference, GroupResource, MalformedReferenceError
from dra.model.workload_types import PODS, WORKLOAD_TYPES

POD_CONTROLLER_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    str(workload_type.resource): (workload_type.api_version, workload_type.kind)
    for workload_type in WORKLOAD_TYPES
    if workload_type.controls_pods
}
"""Kinds that control pods, with apiVersion and kind; other kinds must be looked up in the cluster."""

_INDIRECT_CONTROLLERS: Final = {
    str(workload_type.resource): workload_type.pods_belong_to
    for workload_type in WORKLOAD_TYPES
    if workload_type.pods_belong_to
}
"""Kinds that never control pods directly."""

_RESOURCE_ALIASES: Final = {
    alias: str(workload_type.resource) for workload_type in WORKLOAD_TYPES for alias in workload_type.aliases
}


class InvalidReserveOptionsError(ValueError):
    """An option of ``kubectl dra reserve`` is invalid; the text names the option."""


class ReserveOptions(Struct, frozen=True, kw_only=True):
    """The checked options of ``kubectl dra reserve``."""

    name: str
    resources: Mapping[str, str]
    owners: tuple[str, ...] = ()
    labels: str = ""
    namespace: str
    """Namespace of the owners."""
    all_namespaces: bool = False
    """Whether pods with the labels are owners in every namespace."""
    ttl: str | None = None
    expires: str | None = None
    node: str | None = None
    reusable: bool = False
    allocate_policy: str | None = None


def unknown_owner_kinds(options: ReserveOptions) -> tuple[GroupResource, ...]:
    """Return the kinds of owners to look up in the cluster; raise InvalidReserveOptionsError."""
    kinds = (_parse_owner(owner).group_resource for owner in options.owners)
    return tuple(kind for kind in dict.fromkeys(kinds) if kind != PODS and str(kind) not in POD_CONTROLLER_KINDS)


def build_manifest(
    options: ReserveOptions, *, kinds: Mapping[str, tuple[str, str]] = POD_CONTROLLER_KINDS
) -> dict[str, Any]:
    """Return the Reservation; `kinds` are the kinds that can be owners. Raise InvalidReserveOptionsError."""
    if not options.resources:
        raise InvalidReserveOptionsError("no resources given; use --cpu 6, --memory 20Gi or --resource NAME=AMOUNT")
    if options.all_namespaces and not options.labels:
        raise InvalidReserveOptionsError("-A requires -l; --owner names an object of one namespace")
    owners = [_owner_object(owner, options.namespace, kinds) for owner in options.owners]
    if options.labels:
        object_filter = {} if options.all_namespaces else {"object": {"namespace": options.namespace}}
        owners.append({**object_filter, "labelSelector": {"matchLabels": _parse_labels(options.labels)}})
    if not owners:
        raise InvalidReserveOptionsError(
            "no owners given; use --owner jobs.batch/train, --owner pod/NAME or -l app=web"
        )
    container = {"name": "held", "resources": {"requests": dict(options.resources)}}
    where = {"nodeName": options.node} if options.node else {}
    # The placeholder is created in the owners' namespace: their quota counts.
    metadata = {} if options.all_namespaces else {"metadata": {"namespace": options.namespace}}
    optional = {"ttl": options.ttl, "expires": options.expires, "allocatePolicy": options.allocate_policy}
    template = {**metadata, "spec": {**where, "containers": [container]}}
    reservation = {
        "apiVersion": model.API_VERSION,
        "kind": model.KIND,
        "metadata": {"name": options.name},
        "spec": {
            "template": template,
            "owners": owners,
            **{name: value for name, value in optional.items() if value},
            **({"allocateOnce": False} if options.reusable else {}),
        },
    }
    try:
        pod_requests.template_requests(template)
        fault = reservation_info.from_reservation(model.parse_reservation(reservation)).parse_error
    except (quantities.MalformedAmountsError, model.MalformedReservationError) as error:
        raise InvalidReserveOptionsError(str(error)) from error
    if fault:
        raise InvalidReserveOptionsError(f"reservation {options.name}: {fault}")
    return reservation


def parse_resources(*, cpu: str | None, memory: str | None, others: Sequence[str]) -> dict[str, str]:
    """Return amounts by resource name; raise InvalidReserveOptionsError."""
    resources = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    for pair in others:
        name, equals, amount = pair.partition("=")
        if not (name and equals and amount):
            raise InvalidReserveOptionsError(f"--resource {pair}: use the form --resource example.com/gpu=2")
        if name in resources:
            raise InvalidReserveOptionsError(f"--resource {pair}: {name} is given twice")
        resources[name] = amount
    return resources


def _parse_owner(text: str) -> ConsumerReference:
    """Parse an owner as kubectl does: ``jobs.batch/train``, ``job/train``, ``jobs.v1.batch/train``."""
    kind, slash, name = text.partition("/")
    try:
        wanted = GroupResource.parse(kind.lower()).unversioned
        known = GroupResource.parse(_RESOURCE_ALIASES.get(wanted.resource, str(wanted)))
        canonical = known if wanted.group in {"", known.group} else wanted
        reference = ConsumerReference.parse(f"{canonical}{slash}{name}")
    except MalformedReferenceError as error:
        raise InvalidReserveOptionsError(f"--owner {error}") from error
    if pod_controller := _INDIRECT_CONTROLLERS.get(str(reference.group_resource)):
        raise InvalidReserveOptionsError(
            f"--owner {text}: its pods are controlled by {pod_controller}; select its pods by label instead: -l "
            f"app={reference.name}"
        )
    return reference


def _owner_object(text: str, namespace: str, kinds: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    reference = _parse_owner(text)
    if reference.group_resource == PODS:
        return {"object": {"kind": "Pod", "namespace": namespace, "name": reference.name}}
    known = kinds.get(str(reference.group_resource))
    if known is None:
        raise InvalidReserveOptionsError(f"--owner {text}: unknown kind; use the form jobs.batch/train")
    api_version, kind = known
    return {"controller": {"apiVersion": api_version, "kind": kind, "name": reference.name, "namespace": namespace}}


def _parse_labels(text: str) -> dict[str, str]:
    labels = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        value = value.removeprefix("=")
        if not equals or name.endswith("!") or not name.strip():
            raise InvalidReserveOptionsError(
                f"-l {text}: only equality is supported, as in -l app=web,tier=front; for other selectors write a "
                "manifest"
            )
        labels[name.strip()] = value.strip()
    return labels


NOT_INSTALLED: Final = (
    "the server does not serve Reservations; install component reservations; see kubectl dra install --help"
)

_DRY_RUN_SUFFIXES: Final = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


def create_reservation(  # noqa: PLR0913 - one for each option
    *,
    name: str,
    cpu: str | None,
    memory: str | None,
    others: tuple[str, ...],
    owners: tuple[str, ...],
    labels: str,
    namespace: str | None,
    all_namespaces: bool,
    ttl: str | None,
    expires: str | None,
    node: str | None,
    reusable: bool,
    policy: str | None,
    dry_run: str,
    output: str | None,
    cluster_flags: ClusterFlags,
) -> None:
    """Run ``kubectl dra reserve``; the declaration describes the options."""
    try:
        options = ReserveOptions(
            name=name,
            resources=parse_resources(cpu=cpu, memory=memory, others=others),
            owners=owners,
            labels=labels,
            namespace=_owner_namespace(cluster_flags, namespace, dry_run),
            all_namespaces=all_namespaces,
            ttl=ttl,
            expires=expires,
            node=node,
            reusable=reusable,
            allocate_policy=policy,
        )
        unknown_kinds = unknown_owner_kinds(options)
        if dry_run == "client":
            reservation = build_manifest(options)
        else:
            reservation = run(
                cluster_flags,
                lambda connection: _create(connection, options, unknown_kinds, server=dry_run == "server"),
            )
    except InvalidReserveOptionsError as error:
        raise click.UsageError(str(error)) from error
    if output in {OutputFormat.JSON.value, OutputFormat.YAML.value}:
        click.echo(format_structured(reservation, OutputFormat(output)))
    else:
        done = "" if output == OutputFormat.NAME.value else f" created{_DRY_RUN_SUFFIXES[dry_run]}"
        click.echo(f"reservation.{RESERVATIONS.group}/{name}{done}")
    if labels and all_namespaces:
        print_to_stderr("Any pod with these labels, in any namespace, can use the Reservation.")


def _owner_namespace(cluster_flags: ClusterFlags, given: str | None, dry_run: str) -> str:
    if given:
        return given
    try:
        return cluster_flags.current_namespace() or DEFAULT_NAMESPACE
    except ApiError as error:
        if dry_run == "client":  # a client-side dry run needs no cluster
            return DEFAULT_NAMESPACE
        raise FailedError(str(error)) from error


async def _create(
    connection: Connection, options: ReserveOptions, unknown_kinds: tuple[GroupResource, ...], *, server: bool
) -> dict[str, object]:
    discovery = Discovery(connection.client)
    kinds = dict(POD_CONTROLLER_KINDS)
    for unknown_kind in unknown_kinds:
        canonical = await discovery.expand_shortcut(unknown_kind)
        if canonical is None or unknown_kind.group not in {"", canonical.group}:
            continue  # the same name in another group is another kind
        if (resource := await discovery.resolve(canonical)) is not None:
            kinds[str(unknown_kind)] = (resource.api_version, resource.kind)
    reservation = build_manifest(options, kinds=kinds)
    try:
        answer = await connection.client.create(RESERVATIONS, reservation, model=UnstructuredObject, dry_run=server)
    except NotFound as error:
        raise FailedError(NOT_INSTALLED) from error
    return dict(answer.content)
