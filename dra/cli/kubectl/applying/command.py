"""``kubectl dra apply``: server-side apply, as ``kubectl apply --server-side`` does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import click
import msgspec

from dra.cli.kubectl.applying import kep
from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.formats import Output, Style
from dra.cli.kubectl.manifests import MalformedManifestError, documents, flat
from dra.cli.kubectl.options import Place, manifests_option, place_options
from dra.cli.kubectl.output import Format, say
from dra.cli.kubectl.reading.source import Source
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.resources import InvalidNameError, Resource, group_path
from dra.model.meta import Struct, UnstructuredObject

Json = dict[str, Any]

MANAGER: Final = "kubectl"
"""kubectl's own, so that `kubectl apply --server-side` and this command do not quarrel about fields."""

SCHEMA: Final = "io.k8s.api.resource.v1.ResourceClaimSpec"
OPENAPI: Final = "/openapi/v3/apis/resource.k8s.io/v1"

RESULT: Final = (Format.TABLE, Format.NAME, Format.JSON, Format.YAML, Format.JSONPATH)


class Dry(StrEnum):
    """``--dry-run``."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


_DONE: Final = {
    Dry.NONE: "serverside-applied",
    Dry.CLIENT: "serverside-applied (dry run)",
    Dry.SERVER: "serverside-applied (server dry run)",
}


class _Properties(Struct, frozen=True):
    properties: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class _Components(Struct, frozen=True):
    schemas: dict[str, _Properties] = msgspec.field(default_factory=dict)


class _Document(Struct, frozen=True):
    components: _Components = _Components()


class _Served(Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _ServedAll(Struct, frozen=True):
    resources: list[_Served] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked for."""

    namespace: str
    given: str | None
    """The namespace of the command line."""

    dry: Dry
    force: bool
    manager: str


@click.command()
@manifests_option
@place_options
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Else that of the manifest, or of the context.")
@click.option(
    "--dry-run",
    type=click.Choice([each.value for each in Dry]),
    is_flag=False,
    flag_value=Dry.CLIENT.value,
    default=Dry.NONE.value,
    help="client: only show what would be sent; server: let the server check it, and keep nothing.",
)
@click.option("--force-conflicts", is_flag=True, help="Take fields over from whoever manages them.")
@click.option("--field-manager", default=MANAGER, show_default=True, help="Whose the fields are.")
@click.option("-o", "--output", "style", type=Output(RESULT), default=Format.TABLE.value, help="How it is told.")
def apply(  # noqa: PLR0913 - one for each option
    *,
    paths: tuple[str, ...],
    place: Place,
    namespace: str | None,
    dry_run: str,
    force_conflicts: bool,
    field_manager: str,
    style: Style,
) -> None:
    """Apply manifests with spec.reservedFor, as KEP-5194 writes them, to any server.

    Where the server does not know the field, the claim gets the annotations that dra-reserve reads in its place. All
    other objects are applied as kubectl apply --server-side does it. Exit code: 0 all is applied, 1 something is not, 2
    nothing could be.
    """
    try:
        manifests = [_checked(each) for each in flat(documents(paths))]
    except MalformedManifestError as error:
        raise FailedError(str(error)) from error
    if not manifests:
        raise FailedError("no objects passed to apply")
    order = Order(
        namespace=Source(place=place, given=namespace).namespace,
        given=namespace,
        dry=Dry(dry_run),
        force=force_conflicts,
        manager=field_manager,
    )
    applied, failures = run(place, lambda connection: _apply(connection, manifests, order))
    _tell(applied, order, style)
    for failure in failures:
        say(f"error: {failure}")
    if failures:
        raise SystemExit(1)


def _checked(manifest: Json) -> Json:
    meta = manifest.get("metadata")
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not (kind and version and name):
        raise MalformedManifestError(f"{kind or 'object'} {name or '(without a name)'}: needs apiVersion, kind, a name")
    return manifest


async def _apply(
    connection: Connection, manifests: Sequence[Json], order: Order
) -> tuple[list[tuple[Resource, Json]], list[str]]:
    """Apply each; return what is applied, and what went wrong with the rest."""
    known: dict[tuple[str, str], Resource] = {}
    native: bool | None = None
    applied: list[tuple[Resource, Json]] = []
    failures: list[str] = []
    for manifest in manifests:
        where = f"{manifest['kind']} {manifest['metadata']['name']}"
        try:
            resource = await _resource(connection, manifest, known)
            if kep.concerns(manifest):
                native = await _knows_the_field(connection) if native is None else native
            content = manifest if native or not kep.concerns(manifest) else kep.translated(manifest)
            if content is not manifest:
                say(f"{where}: spec.reservedFor becomes an annotation: this API server does not know the field")
            applied.append((resource, await _sent(connection, resource, content, order)))
        except Conflict as error:
            failures.append(f"{error}; to take the fields over: --force-conflicts")
        except (kep.MalformedReservationError, MalformedManifestError, InvalidNameError) as error:
            failures.append(f"{where}: {error}")
        except ApiError as error:
            failures.append(str(error))
    return applied, failures


async def _sent(connection: Connection, resource: Resource, content: Json, order: Order) -> Json:
    meta = content["metadata"]
    namespace = str(meta.get("namespace") or order.namespace) if resource.namespaced else ""
    if resource.namespaced and order.given and namespace != order.given:
        raise MalformedManifestError(f"is of namespace {namespace}, and --namespace says {order.given}")
    if order.dry is Dry.CLIENT:
        return {**content, "metadata": {**meta, **({"namespace": namespace} if namespace else {})}}
    found = await connection.client.apply(
        resource,
        (namespace, str(meta["name"])),
        content,
        model=UnstructuredObject,
        manager=order.manager,
        force=order.force,
        dry_run=order.dry is Dry.SERVER,
    )
    return found.content


async def _resource(connection: Connection, manifest: Json, known: dict[tuple[str, str], Resource]) -> Resource:
    """Return where objects of that kind are found."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    if (version, kind) not in known:
        group, _, name = version.rpartition("/")
        try:
            served = await connection.client.read(group_path(group, name), _ServedAll)
        except NotFound:
            raise MalformedManifestError(f"the API server has no {version}") from None
        found = next((each for each in served.resources if each.kind == kind and "/" not in each.name), None)
        if found is None:
            raise MalformedManifestError(f"the API server has no kind {kind} in {version}")
        known[version, kind] = Resource(group, name, found.name, kind, namespaced=found.namespaced)
    return known[version, kind]


async def _knows_the_field(connection: Connection) -> bool:
    """Whether the server has spec.reservedFor: its own description says so."""
    document = await connection.client.read(OPENAPI, _Document)
    schema = document.components.schemas.get(SCHEMA)
    return schema is not None and kep.FIELD in schema.properties


def _tell(applied: Sequence[tuple[Resource, Json]], order: Order, style: Style) -> None:
    if style.as_data:
        objects = [content for _, content in applied]
        if objects:
            style.write(objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects})
        return
    for resource, content in applied:
        name = f"{_singular(resource)}/{content['metadata']['name']}"
        click.echo(name if style.output is Format.NAME else f"{name} {_DONE[order.dry]}")


def _singular(resource: Resource) -> str:
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind
