"""Implements the API server in process: takes a request and returns a response or a watch, with or without HTTP."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Protocol, TypeAlias

from dra.kube.clock import SYSTEM, Clock, rfc3339
from dra.kube.transport import APPLY_PATCH, JSON, STRATEGIC_PATCH, Request, Response
from dra.model.nodes import LEASE_NAMESPACE
from localplane import (
    discovery,
    health,
    list_chunks,
    openapi,
    query_options,
    representations,
    request_bodies,
    routes,
    status_errors,
    watch_server,
)
from localplane.crd_controllers import CrdControllers
from localplane.field_manager import FieldManager, keep_managed_fields
from localplane.kinds import core, field_errors, priority_classes, storage_only
from localplane.kinds.builtin import builtin_kinds
from localplane.kinds.catalog import Catalog
from localplane.kinds.pods import BINDINGS, POD_BINDING, PODS
from localplane.kinds.subresource import DeleteOptions
from localplane.objects import Mutation, Object, decode, encode
from localplane.openapi import OpenApiService
from localplane.patches import patch_types
from localplane.patches.codecs import CodecFactory, KindCodec, PatchContext
from localplane.patches.patch_types import PatchRequest
from localplane.query_options import ListOptions, WriteOptions
from localplane.registry import Registry
from localplane.representations import Representation
from localplane.routes import Route
from localplane.schemas.builtin_schemas import Dialect, load_builtin_schemas
from localplane.schemas.releases import NEWEST, Release
from localplane.selection_predicate import AttributeCache, SelectionPredicate
from localplane.status_errors import FieldError, StatusError
from localplane.store import ObjectKey, Store

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", LEASE_NAMESPACE)


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """The response of a watch: a stream of blocks, each of whole frames."""

    blocks: AsyncGenerator[bytes]
    content_type: str = JSON


NonResourceHandler: TypeAlias = Callable[[Request], Response]
"""Handler of the requests below a non-resource path such as ``/openapi``."""


class RequestHandler(Protocol):
    """The interface of a server, or of a wrapper in front of a server."""

    async def handle(self, request: Request) -> Response | WatchResponse:
        """Return the response or the watch of a request."""
        ...


class ApiServer:
    """The API server of the local plane, in process."""

    def __init__(
        self,
        *,
        api: Dialect = Dialect.KEP,
        release: Release = NEWEST,
        clock: Clock = SYSTEM,
        chance: Random | None = None,
    ) -> None:
        self.release = release
        self.catalog = Catalog(builtin_kinds(release))
        self.pages: dict[str, NonResourceHandler] = {}
        """Handlers of non-resource paths by first segments, without outer slashes: ``openapi/v3``."""
        documents = OpenApiService(
            self.catalog, load_builtin_schemas(api), release=release, definitions=self._definitions
        )
        self.pages |= {openapi.V3_PATH: documents.answer, openapi.V2_PATH: documents.answer_v2}
        self.not_enforced = [
            *health.NOT_ENFORCED,
            *(f"{what}: {why}" for what, why in storage_only.NOT_ENFORCED.items()),
        ]
        """Rules that ``/readyz?verbose`` lists as not enforced; a component that omits a rule adds a line."""
        self.store = Store()
        self._clock = clock
        self._chance = chance or Random()  # noqa: S311 - names and uids
        self._facets = AttributeCache()
        self._blocks = watch_server.EncodedBlockCache()
        self._codecs = CodecFactory(api)
        self.registry = Registry(self.store, clock=clock, chance=self._chance)
        self.registry.ownership = FieldManager(self._codecs)
        CrdControllers(self.registry, self.catalog, clock=clock)
        for each in self.catalog:
            self.store.open(each.collection)
        for obj in (
            *map(core.new_namespace, SYSTEM_NAMESPACES),
            *map(deepcopy, priority_classes.SYSTEM_PRIORITY_CLASSES),
        ):
            kind = self.catalog.of(obj)
            assert kind is not None  # noqa: S101 - built in
            if self.store.get(ObjectKey(kind.collection, "", obj["metadata"]["name"])) is None:
                self.registry.create(Route(kind), obj)

    def _definitions(self) -> Iterable[Object]:
        return self.registry.every("customresourcedefinitions.apiextensions.k8s.io")

    async def handle(self, request: Request) -> Response | WatchResponse:
        """Answer a request; no input of a client raises an exception."""
        try:
            route = routes.resolve_path(request.path, self.catalog)
            return await self._answer(route, request) if route else self._handle_non_resource(request)
        except StatusError as refusal:
            return refusal.response
        except RecursionError:  # nothing was written: the write is the last step of a request
            return status_errors.bad_request("the object is nested too deeply").response

    def _handle_non_resource(self, request: Request) -> Response:
        """Answer a request for a non-resource path."""
        found = health.respond(request, self.not_enforced)
        found = found or discovery.respond(request, self.catalog, release=self.release)
        if found is not None:
            return found
        segments = request.path.strip("/").split("/")
        for end in range(len(segments), 0, -1):
            if page := self.pages.get("/".join(segments[:end])):
                return page(request)
        if routes.is_under_builtin_version(request.path, self.catalog):
            raise status_errors.resource_not_found()
        return health.plain_text(404, "404 page not found\n")

    async def _answer(self, route: Route, request: Request) -> Response | WatchResponse:  # noqa: PLR0911 - one for each verb
        verb = _request_verb(route, request)
        match verb:
            case "list" | "watch":
                return await self._list(route, request)
            case "get":
                return await self._get(route, request)
            case "create":
                return self._create(route, request)
            case "update":
                return self._update(route, request)
            case "patch":
                return self._patch(route, request)
            case "delete":
                return self._delete(route, request)
            case _:
                return self._delete_collection(route, request)

    async def _get(self, route: Route, request: Request) -> Response:
        if revision := query_options.parse_resource_version(request.query.get("resourceVersion", "")):
            await self.registry.reached(revision, within=REVISION_TIMEOUT)
        raw = self.registry.get(route).raw
        part = route.subresource
        if part is not None and part.kind:
            return _json_response(200, encode(part.read(decode(raw))))
        return _json_response(200, self._shape(route, request).one(raw))

    async def _list(self, route: Route, request: Request) -> Response | WatchResponse:
        kind = route.kind
        asked = query_options.list_options(request.query, resource=kind.label)
        selection = self._selection(route, asked)
        shape = self._shape(route, request, many=not asked.watch)
        if asked.revision and (asked.initial_events or not asked.watch):
            await self.registry.reached(asked.revision, within=min(asked.timeout or REVISION_TIMEOUT, REVISION_TIMEOUT))
        if asked.watch:
            watching = watch_server.WatchServer(
                store=self.store,
                shared=self._blocks,
                kind=kind,
                selection=selection,
                shape=shape,
                options=asked,
                lasts=asked.timeout or WATCH_TIMEOUT * (1 + self._chance.random()),
            )
            return WatchResponse(watching.blocks())
        page = list_chunks.read_chunk(self.store, kind.collection, selection, asked, custom=kind.custom)
        return _json_response(200, shape.many([each.raw for each in page.items], page.meta))

    def _create(self, route: Route, request: Request) -> Response:
        writing = _write_options(request, "Create")
        obj, warnings = self._object(route, request, writing)
        if route.kind is BINDINGS:  # the legacy form of pods/binding
            route = Route(PODS, route.namespace, str((obj.get("metadata") or {}).get("name", "")), POD_BINDING)
        if route.subresource is not None:
            self.registry.act(route, obj, writing=writing)
            return _json_response(201, encode(_CREATED_STATUS), warnings)
        shape = self._shape(route, request)
        warnings += route.kind.strategy.warnings(obj)
        raw = self.registry.create(route, obj, writing=writing)
        return _json_response(201, route.kind.shown(raw) if route.kind.is_virtual else shape.one(raw), warnings)

    def _update(self, route: Route, request: Request) -> Response:
        writing = _write_options(request, "Update")
        obj, warnings = self._object(route, request, writing)
        meta = _require_name(route, obj)
        must_name_version = route.kind.custom or not route.kind.allow_unconditional_update
        if must_name_version and not meta.get("resourceVersion") and self.registry.exists(route):
            cause = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            cause = FieldError(cause.fault, cause.field, cause.message.replace("0", "0x0", 1))
            raise status_errors.invalid(route.kind.name, route.kind.group, route.name, [cause])
        warnings += route.kind.strategy.warnings(obj) if route.subresource is None else []
        return self._changed(route, request, lambda _: obj, writing, warnings)

    def _patch(self, route: Route, request: Request) -> Response:
        kind, media_type, codec = route.kind, request_bodies.content_type_of(request), self._codec(route)
        make = patch_types.find_patch_type(media_type, kind)
        writing = _write_options(request, "Patch", apply=media_type == APPLY_PATCH)
        body, warnings = patch_types.decode_patch(request.body or b"", media_type)
        patch = PatchRequest(
            body=body,
            kind=kind,
            part=route.subresource,
            manager=writing.manager,
            force=writing.force,
            codec=codec,
            time=rfc3339(self._clock.wall()),
        )
        mutate, patched = make(patch), PatchContext(body, strategic=media_type == STRATEGIC_PATCH)

        def conformed(old: Object) -> Object:
            new, told = codec.patched(mutate(old), patched, writing.validation)
            if old:
                _require_name(route, new)
            warnings.extend(told)
            return new

        if writing.apply and route.subresource is None and not self.registry.exists(route):
            return self._applied(route, request, conformed, writing, warnings)
        return self._changed(route, request, conformed, writing, warnings)

    def _applied(
        self, route: Route, request: Request, mutate: Mutation, writing: WriteOptions, warnings: list[str]
    ) -> Response:
        """Create the applied object, which does not exist yet."""
        obj = mutate({})
        meta = obj.setdefault("metadata", {})
        if meta.setdefault("name", route.name) != route.name:
            why = f"the name of the object ({meta['name']}) does not match the name on the URL ({route.name})"
            raise status_errors.bad_request(why)
        if uid := meta.get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise status_errors.conflict(route.kind.plural, route.kind.group, route.name, why)
        shape = self._shape(route, request)
        return _json_response(201, shape.one(self.registry.create(route, obj, writing=writing)), warnings)

    def _changed(
        self, route: Route, request: Request, mutate: Mutation, writing: WriteOptions, warnings: list[str]
    ) -> Response:
        part = route.subresource
        shape = self._shape(route, request)
        raw = self.registry.change(route, keep_managed_fields(mutate), writing=writing)
        body = encode(part.read(decode(raw))) if part is not None and part.kind else shape.one(raw)
        return _json_response(200, body, warnings)

    def _delete(self, route: Route, request: Request) -> Response:
        deletion, dry_run = self._deletion(request)
        shape = self._shape(route, request)
        raw, gone = self.registry.delete(route, deletion, dry_run=dry_run)
        return _json_response(200, _success_status(route, decode(raw)) if gone else shape.one(raw))

    def _delete_collection(self, route: Route, request: Request) -> Response:
        asked = query_options.list_options(request.query, resource=route.kind.label)
        deletion, dry_run = self._deletion(request)
        shape = self._shape(route, request, many=True)
        page = list_chunks.read_chunk(
            self.store, route.kind.collection, self._selection(route, asked), asked, custom=route.kind.custom
        )
        for each in page.items:
            one = Route(route.kind, each.key.namespace, each.key.name)
            self.registry.delete(one, deletion, dry_run=dry_run)
        return _json_response(200, shape.many([each.raw for each in page.items], page.meta))

    def _object(self, route: Route, request: Request, writing: WriteOptions) -> tuple[Object, list[str]]:
        media_type = request_bodies.negotiate_content_type(request)
        return self._codec(route).read(request.body or b"", writing.validation, content_type=media_type)

    def _codec(self, route: Route) -> KindCodec:
        """Return the codec of request bodies for an object or its subresource."""
        part = route.subresource
        if part is None or not part.kind:
            return self._codecs.of(route.kind)
        return self._codecs.built_in(part.group, part.version, part.kind)

    def _deletion(self, request: Request) -> tuple[DeleteOptions, bool]:
        return query_options.delete_options(request.query, request_bodies.decode_delete_options(request, self._codecs))

    def _selection(self, route: Route, asked: ListOptions) -> SelectionPredicate:
        return SelectionPredicate(route, self._facets, labels=asked.labels, fields=asked.fields)

    def _shape(self, route: Route, request: Request, *, many: bool = False) -> Representation:
        include = request.query.get("includeObject", "")
        return representations.negotiate_representation(
            route.kind, request.accept, include=include, many=many, now=self._clock.wall
        )


REVISION_TIMEOUT: Final = 3.0
"""Maximum seconds that a request waits for a future revision."""

WATCH_TIMEOUT: Final = 1800.0
"""Minimum seconds of a watch without timeoutSeconds; the maximum is twice as long, as upstream."""

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}

_CREATED_STATUS: Final[Object] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def _request_verb(route: Route, request: Request) -> str:
    """Return the API verb of a request; raises `StatusError` 405."""
    verb = (_VERBS if route.name else _COLLECTION_VERBS).get(request.method)
    if verb == "list" and query_options.parse_boolean(request.query, "watch"):
        verb = "watch"
    allowed = route.kind.verbs if route.subresource is None else route.subresource.verbs
    misplaced = verb == "create" and route.name and route.subresource is None
    if verb is None or verb not in allowed or misplaced:
        raise status_errors.method_not_allowed()
    return verb


def _require_name(route: Route, obj: Object) -> Object:
    """Return the metadata of a changed object; raises `StatusError` 400 if it has no name."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    if not meta.get("name"):
        why = f"the name of the object ({route.name} based on URL) was undeterminable: name must be provided"
        raise status_errors.bad_request(why)
    return meta


def _write_options(request: Request, verb: str, *, apply: bool | None = None) -> WriteOptions:
    """Return the options of a write; the field manager defaults to the program in the User-Agent."""
    found = query_options.write_options(request.query, verb=verb, apply=apply)
    return found if found.manager else replace(found, manager=request.agent.partition("/")[0])


def _json_response(status: int, body: bytes, warnings: Sequence[str] = ()) -> Response:
    headers = {"content-type": JSON}
    if warnings:
        headers["warning"] = ", ".join(f"299 - {_quote(each)}" for each in warnings)
    return Response(status, headers, body)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _success_status(route: Route, obj: Object) -> bytes:
    about = {"name": route.name, "group": route.kind.group, "kind": route.kind.plural, "uid": obj["metadata"]["uid"]}
    details = {name: value for name, value in about.items() if value}
    return encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
