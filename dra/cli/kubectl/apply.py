"""Implements ``kubectl dra apply``: server-side apply, as ``kubectl apply --server-side`` does it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import click
import msgspec

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.colocation.manifest_profiles import ManifestProfiles
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.koordinator_requests import RequestTranslator
from dra.cli.kubectl.manifests import MalformedManifestError, flatten_lists, load_documents
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, list_content, print_to_stderr
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.resources import InvalidNameError, Resource, group_path
from dra.model.meta import Struct, Uid, UnstructuredObject
from dra.model.references import ConsumerReference, MalformedReferenceError
from dra.model.workload_reservations import RESERVED_FOR, RESERVED_FOR_UID

Json = dict[str, Any]


CLAIM_SPEC_SCHEMA: Final = "io.k8s.api.resource.v1.ResourceClaimSpec"
OPENAPI_PATH: Final = "/openapi/v3/apis/resource.k8s.io/v1"


class DryRunStrategy(StrEnum):
    """The values of ``--dry-run``: none, client (print only) or server (check and do not keep)."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


_OPERATION_TEXTS: Final = {
    DryRunStrategy.NONE: "serverside-applied",
    DryRunStrategy.CLIENT: "serverside-applied (dry run)",
    DryRunStrategy.SERVER: "serverside-applied (server dry run)",
}


_TRANSLATES: Final = "the API server translates them from Kubernetes 1.36 on"
_APPLIES_PROFILES: Final = "the API server applies profiles from Kubernetes 1.36 on"


class _Properties(Struct, frozen=True):
    properties: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class _Components(Struct, frozen=True):
    schemas: dict[str, _Properties] = msgspec.field(default_factory=dict)


class _OpenApiDocument(Struct, frozen=True):
    components: _Components = _Components()


class _ApiResource(Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _ApiResourceList(Struct, frozen=True):
    resources: list[_ApiResource] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The checked options of ``kubectl dra apply``."""

    namespace: str
    requested_namespace: str | None
    """The namespace of the command line; None without -n."""

    dry_run: DryRunStrategy
    force_conflicts: bool
    field_manager: str


def apply_manifests(  # noqa: PLR0913 - one for each option
    *,
    filenames: tuple[str, ...],
    cluster_flags: ClusterFlags,
    namespace: str | None,
    dry_run: str,
    force_conflicts: bool,
    field_manager: str,
    output: PrintOptions,
) -> None:
    """Run ``kubectl dra apply``; the declaration describes the options."""
    try:
        manifests = [_validate_manifest(manifest) for manifest in flatten_lists(load_documents(filenames))]
    except MalformedManifestError as error:
        raise FailedError(str(error)) from error
    if not manifests:
        raise FailedError("no objects passed to apply")
    options = ApplyOptions(
        namespace=SnapshotSource(cluster_flags=cluster_flags, requested_namespace=namespace).namespace,
        requested_namespace=namespace,
        dry_run=DryRunStrategy(dry_run),
        force_conflicts=force_conflicts,
        field_manager=field_manager,
    )
    applied, failures = run(cluster_flags, lambda connection: _apply_all(connection, manifests, options))
    _print_applied(applied, options, output)
    for failure in failures:
        print_to_stderr(f"error: {failure}")
    if failures:
        raise SystemExit(1)


def _validate_manifest(manifest: Json) -> Json:
    meta = manifest.get("metadata")
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not (kind and version and name):
        raise MalformedManifestError(
            f"{kind or 'object'} {name or '(without a name)'}: apiVersion, kind and metadata.name are required"
        )
    return manifest


async def _apply_all(
    connection: Connection, manifests: Sequence[Json], options: ApplyOptions
) -> tuple[list[tuple[Resource, Json]], list[str]]:
    """Apply each manifest; return the applied objects, and the errors of all others."""
    known: dict[tuple[str, str], Resource] = {}
    translator, profiles = RequestTranslator(connection), ManifestProfiles(connection)
    native: bool | None = None
    applied: list[tuple[Resource, Json]] = []
    failures: list[str] = []
    for manifest in manifests:
        where = f"{manifest['kind']} {manifest['metadata']['name']}"
        try:
            resource = await resource_for(connection, manifest, known)
            if has_reserved_for(manifest):
                native = await _serves_reserved_for(connection) if native is None else native
            content = manifest if native or not has_reserved_for(manifest) else to_annotations(manifest)
            if content is not manifest:
                print_to_stderr(
                    f"{where}: spec.reservedFor is applied as an annotation: the API server does not know the field"
                )
            profiled = await profiles.applied(content, namespace=_namespace(content, options))
            if profiled is not content:
                print_to_stderr(f"{where}: is applied with its ClusterColocationProfiles: {_APPLIES_PROFILES}")
            content = profiled
            translated = await translator.translated(content, namespace=_namespace(content, options))
            if translated is not content:
                print_to_stderr(f"{where}: requests in Koordinator's form are applied as claims: {_TRANSLATES}")
            content = translated
            applied.append((resource, await _apply_one(connection, resource, content, options)))
        except Conflict as error:
            failures.append(f"{error}; use --force-conflicts to take over the fields")
        except (MalformedReservedForError, MalformedManifestError, InvalidNameError) as error:
            failures.append(f"{where}: {error}")
        except ApiError as error:
            failures.append(str(error))
    return applied, failures


async def _apply_one(connection: Connection, resource: Resource, content: Json, options: ApplyOptions) -> Json:
    meta = content["metadata"]
    namespace = _namespace(content, options) if resource.namespaced else ""
    if resource.namespaced and options.requested_namespace and namespace != options.requested_namespace:
        raise MalformedManifestError(f"namespace {namespace} does not match --namespace {options.requested_namespace}")
    if options.dry_run is DryRunStrategy.CLIENT:
        return {**content, "metadata": {**meta, **({"namespace": namespace} if namespace else {})}}
    applied = await connection.client.apply(
        resource,
        (namespace, str(meta["name"])),
        content,
        model=UnstructuredObject,
        manager=options.field_manager,
        force=options.force_conflicts,
        dry_run=options.dry_run is DryRunStrategy.SERVER,
    )
    return applied.content


def _namespace(manifest: Json, options: ApplyOptions) -> str:
    return str(manifest["metadata"].get("namespace") or options.namespace)


async def resource_for(connection: Connection, manifest: Json, known: dict[tuple[str, str], Resource]) -> Resource:
    """Return the resource that serves a manifest's kind; raise MalformedManifestError if no resource does."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    if (version, kind) not in known:
        group, _, name = version.rpartition("/")
        try:
            served = await connection.client.read(group_path(group, name), _ApiResourceList)
        except NotFound:
            raise MalformedManifestError(f"the API server does not serve {version}") from None
        kind_resource = next(
            (candidate for candidate in served.resources if candidate.kind == kind and "/" not in candidate.name), None
        )
        if kind_resource is None:
            raise MalformedManifestError(f"the API server does not serve kind {kind} in {version}")
        known[version, kind] = Resource(group, name, kind_resource.name, kind, namespaced=kind_resource.namespaced)
    return known[version, kind]


async def _serves_reserved_for(connection: Connection) -> bool:
    """Report whether the server's OpenAPI document lists spec.reservedFor."""
    document = await connection.client.read(OPENAPI_PATH, _OpenApiDocument)
    schema = document.components.schemas.get(CLAIM_SPEC_SCHEMA)
    return schema is not None and RESERVED_FOR_FIELD in schema.properties


def _print_applied(applied: Sequence[tuple[Resource, Json]], options: ApplyOptions, output: PrintOptions) -> None:
    if output.is_structured:
        objects = [content for _, content in applied]
        if objects:
            output.print(objects[0] if len(objects) == 1 else list_content(objects))
        return
    for resource, content in applied:
        name = f"{resource_name(resource)}/{content['metadata']['name']}"
        click.echo(name if output.format is OutputFormat.NAME else f"{name} {_OPERATION_TEXTS[options.dry_run]}")


def resource_name(resource: Resource) -> str:
    """Return the kind of a resource as kubectl prints it before a name."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind


RESERVED_FOR_FIELD: Final = "reservedFor"

RESOURCE_API_GROUP: Final = "resource.k8s.io"

_REFERENCE_FIELDS: Final = frozenset({"apiGroup", "resource", "name", "uid"})


class MalformedReservedForError(ValueError):
    """A value of spec.reservedFor is invalid; the text says how to write it."""


def has_reserved_for(manifest: Mapping[str, Any]) -> bool:
    """Report whether a manifest has spec.reservedFor."""
    return _claim_spec(dict(manifest)) is not None


def to_annotations(manifest: Mapping[str, Any]) -> Json:
    """Return the manifest with annotations in place of the field; raise MalformedReservedForError."""
    parts = _claim_spec(dict(manifest))
    if parts is None:
        return dict(manifest)
    spec, metadata = parts
    reference = _parse_reference(spec[RESERVED_FOR_FIELD])
    annotations = dict(metadata.get("annotations") or {})
    wanted = {RESERVED_FOR: str(reference), **({RESERVED_FOR_UID: reference.uid} if reference.uid else {})}
    for key, value in wanted.items():
        if annotations.get(key, value) != value:
            raise MalformedReservedForError(
                f"spec.{RESERVED_FOR_FIELD} is {value}, but annotation {key} is {annotations[key]}"
            )
    without = {key: value for key, value in spec.items() if key != RESERVED_FOR_FIELD}
    marked = {**metadata, "annotations": annotations | wanted}
    if manifest["kind"] == "ResourceClaim":
        return {**manifest, "metadata": marked, "spec": without}
    return {**manifest, "spec": {**manifest["spec"], "metadata": marked, "spec": without}}


def _claim_spec(manifest: Json) -> tuple[Json, Json] | None:
    """Return the spec that has the field, and the metadata for the claim's annotations; None without the field."""
    if str(manifest.get("apiVersion", "")).partition("/")[0] != RESOURCE_API_GROUP:
        return None
    spec: Any = manifest.get("spec")
    metadata: Any = manifest.get("metadata")
    if not isinstance(spec, dict):
        return None
    if manifest.get("kind") == "ResourceClaimTemplate":
        spec, metadata = spec.get("spec"), spec.get("metadata")
    elif manifest.get("kind") != "ResourceClaim":
        return None
    return (spec, metadata or {}) if isinstance(spec, dict) and spec.get(RESERVED_FOR_FIELD) is not None else None


def _parse_reference(value: Any) -> ConsumerReference:  # noqa: ANN401 - what YAML can say
    shape = "as in: {apiGroup: batch, resource: jobs, name: train}"
    if not isinstance(value, Mapping):
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}: must be one reference, {shape}")
    if "kind" in value:
        raise MalformedReservedForError(
            f"spec.{RESERVED_FOR_FIELD}.kind: use field resource with the plural name, {shape}"
        )
    if unknown := sorted(set(value) - _REFERENCE_FIELDS):
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}.{unknown[0]}: unknown field; {shape}")
    if not (value.get("resource") and value.get("name")):
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}: resource and name are required, {shape}")
    group, resource, name = (str(value.get(key) or "") for key in ("apiGroup", "resource", "name"))
    try:
        kind = f"{resource}.{group}" if group else resource
        return ConsumerReference.parse(f"{kind}/{name}", uid=Uid(str(value.get("uid") or "")))
    except MalformedReferenceError as error:
        raise MalformedReservedForError(f"spec.{RESERVED_FOR_FIELD}: {error}") from error
