"""The API server: one request in, one answer or one watch out; HTTP is only one way to get here."""

from collections.abc import AsyncGenerator, Callable
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TypeAlias

import msgspec

from dra.kube.clock import SYSTEM, Clock
from dra.kube.transport import JSON, MERGE_PATCH, Request, Response
from dra.local import discovery, health, refusals, routes, watches
from dra.local.definitions import Definitions
from dra.local.kinds import core, priorities
from dra.local.kinds.builtin import builtin
from dra.local.kinds.catalog import Catalog
from dra.local.kinds.subresource import Deletion
from dra.local.objects import Mutation, Object, decode, encode
from dra.local.patches import merge
from dra.local.refusals import Refusal
from dra.local.registry import Registry
from dra.local.routes import Route
from dra.local.schemas.structures import Dialect
from dra.local.store import Key, Store

DEFAULT_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, slots=True)
class Watch:
    """An answer without end: blocks of whole frames."""

    blocks: AsyncGenerator[bytes]
    content_type: str = JSON


Page: TypeAlias = Callable[[Request], Response]
"""Answers the requests below a path that is none of an object: ``/openapi``."""


class Handler(Protocol):
    """Whatever answers requests: a server, or something that stands before one."""

    async def handle(self, request: Request) -> Response | Watch:
        """Answer a request."""
        ...


class ApiServer:
    """An API server in process."""

    def __init__(self, *, api: Dialect = Dialect.KEP, clock: Clock = SYSTEM, chance: Random | None = None) -> None:
        self.catalog = Catalog(builtin(api))
        self.pages: dict[str, Page] = {}
        """By their first segments, without slashes around: ``openapi/v3``."""
        self.not_enforced = list(health.NOT_ENFORCED)
        """What ``/readyz?verbose`` says; whoever leaves something out adds a line."""
        self.store = Store()
        self.registry = Registry(self.store, clock=clock, chance=chance or Random())  # noqa: S311 - names and uids
        Definitions(self.registry, self.catalog, clock=clock)
        for obj in (*map(core.namespace, DEFAULT_NAMESPACES), *map(deepcopy, priorities.SYSTEM_CLASSES)):
            kind = self.catalog.of(obj)
            assert kind is not None  # noqa: S101 - built in
            if self.store.get(Key(kind.collection, "", obj["metadata"]["name"])) is None:
                self.registry.create(Route(kind), obj)

    async def handle(self, request: Request) -> Response | Watch:
        """Answer a request; never raises for what a client can send."""
        try:
            route = routes.find(request.path, self.catalog)
            return await self._answer(route, request) if route else self._page(request)
        except Refusal as refusal:
            return refusal.response

    def _page(self, request: Request) -> Response:
        """Answer what is asked of no object."""
        found = health.answer(request, self.not_enforced) or discovery.find(request, self.catalog)
        if found is not None:
            return found
        segments = request.path.strip("/").split("/")
        for end in range(len(segments), 0, -1):
            if page := self.pages.get("/".join(segments[:end])):
                return page(request)
        return health.plain(404, "404 page not found\n")

    async def _answer(self, route: Route, request: Request) -> Response | Watch:  # noqa: PLR0911 - one for each verb
        dry_run = request.query.get("dryRun") == "All"
        match request.method:
            case "GET" if not route.name:
                return await self._collection(route, request)
            case "GET":
                return _json(200, route.kind.shown(self.registry.get(route).raw))
            case "POST" if route.subresource:
                self.registry.act(route, _body(request), dry_run=dry_run)
                return _json(201, encode(_DONE))
            case "POST" if not route.name:
                raw = self.registry.create(route, self._object(route, request), dry_run=dry_run)
                return _json(201, route.kind.shown(raw))
            case "PUT" if route.name:
                body = self._object(route, request)
                return _json(200, route.kind.shown(self.registry.change(route, lambda _: body, dry_run=dry_run)))
            case "PATCH" if route.name:
                raw = self.registry.change(route, self._patch(request), dry_run=dry_run)
                return _json(200, route.kind.shown(raw))
            case "DELETE" if route.name:
                raw, gone = self.registry.delete(route, self._deletion(request), dry_run=dry_run)
                return _json(200, _success(route, decode(raw)) if gone else route.kind.shown(raw))
            case _:
                raise refusals.method_not_allowed()

    async def _collection(self, route: Route, request: Request) -> Response | Watch:
        if request.query.get("watch") in ("true", "1"):
            return Watch(watches.blocks(self.store, route, request))
        items = self.store.snapshot(route.kind.collection, namespace=route.namespace)
        head = encode({"kind": route.kind.list_kind, "apiVersion": route.kind.api_version})
        meta = encode({"resourceVersion": str(self.store.revision)})
        raws = b",".join(route.kind.shown(each.raw) for each in items)
        body = b"".join((head[:-1], b',"metadata":', meta, b',"items":[', raws, b"]}"))
        return _json(200, body)

    def _object(self, route: Route, request: Request) -> Object:
        obj = _body(request)
        obj.setdefault("apiVersion", route.kind.api_version)
        obj.setdefault("kind", route.kind.name)
        return obj

    def _patch(self, request: Request) -> Mutation:
        make = _PATCHES.get(request.content_type or "")
        if make is None:
            raise refusals.unsupported_media_type(tuple(_PATCHES))
        return make(_body(request))

    def _deletion(self, request: Request) -> Deletion:
        options = _body(request) if request.body else {}
        options |= request.query
        preconditions = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds")
        return Deletion(
            grace_seconds=None if grace is None else int(grace),
            propagation=options.get("propagationPolicy"),
            uid=preconditions.get("uid"),
            revision=preconditions.get("resourceVersion"),
        )


_PATCHES: Final[dict[str, Callable[[Object], Mutation]]] = {MERGE_PATCH: merge.mutation}


_DONE: Final[Object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _body(request: Request) -> Object:
    try:
        return decode(request.body or b"")
    except msgspec.DecodeError as error:
        raise refusals.bad_request(f"the object provided is unrecognized: {error}") from error


def _json(status: int, body: bytes) -> Response:
    return Response(status, {"content-type": JSON}, body)


def _success(route: Route, obj: Object) -> bytes:
    about = {"name": route.name, "group": route.kind.group, "kind": route.kind.plural, "uid": obj["metadata"]["uid"]}
    details = {name: value for name, value in about.items() if value}
    return encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
