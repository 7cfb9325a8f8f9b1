"""Implements the API server in process: takes a request and returns a response or a watch, with or without HTTP."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TypeAlias

import msgspec

from dra.kube.clock import SYSTEM, Clock, rfc3339
from dra.kube.transport import APPLY_PATCH, JSON, MERGE_PATCH, STRATEGIC_PATCH, Request, Response
from dra.model.nodes import LEASE_NAMESPACE
from dra.model.releases import NEWEST, Release
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
from localplane.codecs import CodecFactory, KindCodec, PatchContext
from localplane.crd_controllers import CrdControllers
from localplane.field_manager import FieldManager, keep_managed_fields
from localplane.kinds import core, field_errors, priority_classes, storage_only
from localplane.kinds.builtin import builtin_kinds
from localplane.kinds.catalog import Catalog
from localplane.kinds.pods import BINDINGS
from localplane.kinds.subresource import DeleteOptions
from localplane.objects import Mutation, Object, decode, encode, metadata
from localplane.openapi import OpenApiService
from localplane.patches import patch_types
from localplane.patches.patch_types import PatchRequest
from localplane.query_options import ListOptions, WriteOptions
from localplane.registry import Registry
from localplane.representations import Representation
from localplane.routes import Route
from localplane.schemas.builtin_schemas import Dialect, load_builtin_schemas
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
        random: Random | None = None,
    ) -> None:
        self.release = release
        self.catalog = Catalog(builtin_kinds(release))
        self.non_resource_handlers: dict[str, NonResourceHandler] = {}
        """Handlers of non-resource paths by first segments, without outer slashes: ``openapi/v3``."""
        openapi_service = OpenApiService(
            self.catalog, load_builtin_schemas(api), release=release, definitions=self._definitions
        )
        self.non_resource_handlers |= {
            openapi.V3_PATH: openapi_service.respond,
            openapi.V2_PATH: openapi_service.respond_v2,
        }
        self.not_enforced = [
            *health.NOT_ENFORCED,
            *(f"{what}: {why}" for what, why in storage_only.NOT_ENFORCED.items()),
        ]
        """Rules that ``/readyz?verbose`` lists as not enforced; a component that omits a rule adds a line."""
        self.store = Store()
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - names and uids
        self._attributes = AttributeCache()
        self._block_cache = watch_server.EncodedBlockCache()
        self._codecs = CodecFactory(api)
        self.registry = Registry(
            self.store, clock=clock, random=self._random, tells_revisions=release.traits.tells_revisions
        )
        self.registry.field_manager = FieldManager(self._codecs)
        CrdControllers(self.registry, self.catalog, clock=clock, traits=release.traits)
        for served in self.catalog:
            self.store.start_history(served.collection)
        for obj in (
            *map(core.new_namespace, SYSTEM_NAMESPACES),
            *map(deepcopy, priority_classes.SYSTEM_PRIORITY_CLASSES),
        ):
            kind = self.catalog.kind_of(obj)
            assert kind is not None  # noqa: S101 - built in
            if self.store.get(ObjectKey(kind.collection, "", obj["metadata"]["name"])) is None:
                self.registry.create(Route(kind), obj)

    def _definitions(self) -> Iterable[Object]:
        return self.registry.list_objects("customresourcedefinitions.apiextensions.k8s.io")

    async def handle(self, request: Request) -> Response | WatchResponse:
        """Answer a request; no input of a client raises an exception."""
        try:
            route = routes.resolve_path(request.path, self.catalog)
            return await self._handle_resource(route, request) if route else self._handle_non_resource(request)
        except StatusError as error:
            return error.response
        except RecursionError:  # nothing was written: the write is the last step of a request
            return status_errors.bad_request("the object is nested too deeply").response

    def _handle_non_resource(self, request: Request) -> Response:
        """Answer a request for a non-resource path."""
        response = health.respond(request, self.not_enforced)
        response = response or discovery.respond(request, self.catalog, release=self.release)
        if response is not None:
            return response
        segments = request.path.strip("/").split("/")
        for end in range(len(segments), 0, -1):
            if handler := self.non_resource_handlers.get("/".join(segments[:end])):
                return handler(request)
        match segments:
            case ["api", "v1", "namespaces", _, "pods", _, ("attach" | "exec" | "log" | "portforward") as subresource]:
                raise status_errors.container_access_not_found(subresource)
        if routes.is_under_builtin_version(request.path, self.catalog):
            raise status_errors.resource_not_found()
        if self.release.traits.json_not_found:
            raise status_errors.page_not_found()
        return health.plain_text(404, "404 page not found\n")

    async def _handle_resource(self, route: Route, request: Request) -> Response | WatchResponse:  # noqa: PLR0911 - one for each verb
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
        revision = query_options.get_revision(
            request.query,
            resource=route.kind.group_resource,
            name=route.name,
            refuses_malformed=self.release.traits.refuses_malformed_revisions,
        )
        if revision:
            await self.registry.wait_for_revision(revision, within=REVISION_TIMEOUT)
        raw = self.registry.get(route).raw
        subresource = route.subresource
        if subresource is not None and subresource.kind:
            return _json_response(200, encode(subresource.read(decode(raw))))
        return _json_response(200, self._representation(route, request).encode_object(raw))

    async def _list(self, route: Route, request: Request) -> Response | WatchResponse:
        kind = route.kind
        options = query_options.list_options(request.query, resource=kind.group_resource)
        selection = self._selection(route, options)
        representation = self._representation(route, request, is_list=not options.watch)
        if options.revision and (options.send_initial_events or not options.watch):
            await self.registry.wait_for_revision(
                options.revision, within=min(options.timeout_seconds or REVISION_TIMEOUT, REVISION_TIMEOUT)
            )
        if options.watch:
            watch = watch_server.WatchServer(
                store=self.store,
                block_cache=self._block_cache,
                kind=kind,
                selection=selection,
                representation=representation,
                options=options,
                timeout_seconds=options.timeout_seconds or WATCH_TIMEOUT * (1 + self._random.random()),
            )
            return WatchResponse(watch.blocks())
        chunk = list_chunks.read_chunk(self.store, kind.collection, selection, options, custom=kind.is_custom)
        return _json_response(200, representation.encode_list([stored.raw for stored in chunk.items], chunk.meta))

    def _create(self, route: Route, request: Request) -> Response:
        options = _write_options(request, "Create")
        obj, warnings = self._decode_body(route, request, options)
        if route.kind is BINDINGS:  # the legacy form of pods/binding
            pods = next(kind for kind in self.catalog if (kind.group, kind.plural) == ("", "pods"))
            name = str((obj.get("metadata") or {}).get("name", ""))
            route = Route(pods, route.namespace, name, pods.subresource("binding"))
        if route.subresource is not None:
            meta = self.registry.create_subresource(route, obj, options=options)
            return _json_response(201, encode(_CREATED_STATUS | self._list_meta(meta)), warnings)
        representation = self._representation(route, request)
        warnings += route.kind.strategy.warnings(obj)
        raw = self.registry.create(route, obj, options=options)
        return _json_response(
            201, route.kind.from_storage(raw) if route.kind.is_virtual else representation.encode_object(raw), warnings
        )

    def _update(self, route: Route, request: Request) -> Response:
        options = _write_options(request, "Update")
        obj, warnings = self._decode_body(route, request, options)
        meta = _require_name(route, obj)
        must_name_version = route.kind.is_custom or not route.kind.allow_unconditional_update
        if must_name_version and not meta.get("resourceVersion") and self.registry.exists(route):
            cause = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            cause = FieldError(cause.type, cause.field, cause.message.replace("0", "0x0", 1))
            raise status_errors.invalid(route.kind.name, route.kind.group, route.name, [cause])
        warnings += route.kind.strategy.warnings(obj) if route.subresource is None else []
        return self._update_object(route, request, lambda _: obj, options, warnings)

    def _patch(self, route: Route, request: Request) -> Response:
        kind, media_type, codec = route.kind, request_bodies.content_type_of(request), self._codec(route)
        patch_type = patch_types.find_patch_type(media_type, kind)
        options = _write_options(request, "Patch", apply=media_type == APPLY_PATCH)
        body, warnings = patch_types.decode_patch(request.body or b"", media_type)
        patch = PatchRequest(
            body=body,
            kind=kind,
            subresource=route.subresource,
            field_manager=options.field_manager,
            force=options.force,
            codec=codec,
            time=rfc3339(self._clock.wall()),
        )
        mutate, context = patch_type(patch), PatchContext(body, strategic=media_type == STRATEGIC_PATCH)

        def normalized(old: Object) -> Object:
            stored = old if media_type == MERGE_PATCH and codec.kind == kind.name else None  # others change the object
            new, new_warnings = codec.decode_patch_result(mutate(old), context, options.field_validation, stored=stored)
            if old:
                _require_name(route, new)
            warnings.extend(new_warnings)
            return new

        if options.is_apply and route.subresource is None and not self.registry.exists(route):
            return self._create_by_apply(route, request, normalized, options, warnings)
        return self._update_object(route, request, normalized, options, warnings)

    def _create_by_apply(
        self, route: Route, request: Request, mutate: Mutation, options: WriteOptions, warnings: list[str]
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
        representation = self._representation(route, request)
        return _json_response(
            201, representation.encode_object(self.registry.create(route, obj, options=options)), warnings
        )

    def _update_object(
        self, route: Route, request: Request, mutate: Mutation, options: WriteOptions, warnings: list[str]
    ) -> Response:
        subresource = route.subresource
        representation = self._representation(route, request)
        raw = self.registry.update(route, keep_managed_fields(mutate), options=options)
        body = (
            encode(subresource.read(decode(raw)))
            if subresource is not None and subresource.kind
            else representation.encode_object(raw)
        )
        return _json_response(200, body, warnings)

    def _delete(self, route: Route, request: Request) -> Response:
        options, dry_run = self._delete_options(request)
        representation = self._representation(route, request)
        raw, deleted = self.registry.delete(route, options, dry_run=dry_run)
        if not deleted:
            return _json_response(200, representation.encode_object(raw))
        obj = decode(raw)
        return _json_response(200, encode(_success_status(route, obj) | self._list_meta(metadata(obj))))

    def _list_meta(self, meta: Object) -> Object:
        """Return the metadata of a Status about an object with this metadata, as far as the release has it."""
        list_meta = {"resourceVersion": meta["resourceVersion"]} if self.release.traits.tells_revisions else {}
        return {"metadata": list_meta}

    def _delete_collection(self, route: Route, request: Request) -> Response:
        list_options = query_options.list_options(request.query, resource=route.kind.group_resource)
        delete_options, dry_run = self._delete_options(request)
        representation = self._representation(route, request, is_list=True)
        chunk = list_chunks.read_chunk(
            self.store,
            route.kind.collection,
            self._selection(route, list_options),
            list_options,
            custom=route.kind.is_custom,
        )
        for stored in chunk.items:
            one = Route(route.kind, stored.key.namespace, stored.key.name)
            self.registry.delete(one, delete_options, dry_run=dry_run)
        return _json_response(200, representation.encode_list([stored.raw for stored in chunk.items], chunk.meta))

    def _decode_body(self, route: Route, request: Request, options: WriteOptions) -> tuple[Object, list[str]]:
        media_type = request_bodies.negotiate_content_type(request)
        return self._codec(route).decode(request.body or b"", options.field_validation, content_type=media_type)

    def _codec(self, route: Route) -> KindCodec:
        """Return the codec of request bodies for an object or its subresource."""
        subresource = route.subresource
        if subresource is None or not subresource.kind:
            return self._codecs.for_kind(route.kind)
        return self._codecs.for_builtin(subresource.group, subresource.version, subresource.kind)

    def _delete_options(self, request: Request) -> tuple[DeleteOptions, bool]:
        return query_options.delete_options(request.query, request_bodies.decode_delete_options(request, self._codecs))

    def _selection(self, route: Route, options: ListOptions) -> SelectionPredicate:
        return SelectionPredicate(route, self._attributes, labels=options.label_selector, fields=options.field_selector)

    def _representation(self, route: Route, request: Request, *, is_list: bool = False) -> Representation:
        include = request.query.get("includeObject", "")
        return representations.negotiate_representation(
            route.kind, request.accept, include=include, is_list=is_list, now=self._clock.wall
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
    options = query_options.write_options(request.query, verb=verb, apply=apply)
    if options.field_manager:
        return options
    return msgspec.structs.replace(options, field_manager=request.agent.partition("/")[0])


def _json_response(status: int, body: bytes, warnings: Sequence[str] = ()) -> Response:
    headers = {"content-type": JSON}
    if warnings:
        headers["warning"] = ", ".join(f"299 - {_quote(warning)}" for warning in warnings)
    return Response(status, headers, body)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _success_status(route: Route, obj: Object) -> Object:
    values = {"name": route.name, "group": route.kind.group, "kind": route.kind.plural, "uid": obj["metadata"]["uid"]}
    details = {name: value for name, value in values.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
