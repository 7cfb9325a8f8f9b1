"""OpenAPI: an index with hashes, one document for each group and version, custom ones included; v2 is made of them.

As much of it as clients use: the paths with their verbs, options and patch formats (kubectl looks there whether a
server knows dry runs and field validation), and the schemas with everything that patches and explanations need.
Documents are made when they are asked for and kept until a kind of theirs changes.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from dra.kube.transport import APPLY_PATCH, JSON, MERGE_PATCH, STRATEGIC_PATCH, Request, Response
from dra.local import gnostic, refusals, swagger
from dra.local.kinds.catalog import Catalog
from dra.local.kinds.kind import Kind
from dra.local.kinds.subresource import Subresource
from dra.local.objects import Object, encode
from dra.local.patches.formats import JSON_PATCH
from dra.local.schemas import descriptions
from dra.local.schemas.reading import REFERENCE
from dra.local.schemas.releases import Release
from dra.local.schemas.structures import DELETE_OPTIONS, OBJECT_META, Structures

PATH: Final = "openapi/v3"
PATH_OF_V2: Final = "openapi/v2"

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_ALWAYS: Final = (DELETE_OPTIONS, f"{_META}Patch", f"{_META}Status", f"{_META}ListMeta", OBJECT_META)

_STRING: Final = {"type": "string", "uniqueItems": True}
_NAME: Final = {"name": "name", "in": "path", "required": True, "schema": _STRING}
_NAMESPACE: Final = {"name": "namespace", "in": "path", "required": True, "schema": _STRING}
_WRITING: Final = [
    {"name": name, "in": "query", "schema": _STRING} for name in ("dryRun", "fieldManager", "fieldValidation")
]
_FORCE: Final = {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}}


class OpenApi:
    """Answers what is asked below ``/openapi``."""

    def __init__(
        self,
        catalog: Catalog,
        structures: Structures,
        *,
        release: Release,
        definitions: Callable[[], Iterable[Object]],
    ) -> None:
        """`definitions` returns the CustomResourceDefinitions there are, as objects."""
        self._release: Final = release
        self._catalog: Final = catalog
        self._structures: Final = structures
        self._definitions: Final = definitions
        self._made: Final[dict[str, tuple[str, bytes]]] = {}
        self._made_of_v2: Final[dict[str, tuple[str, bytes]]] = {}
        """By media type."""

    def answer(self, request: Request) -> Response:
        """Return the index or a document; raises `Refusal`."""
        if request.method != "GET":
            raise refusals.method_not_allowed()
        place = request.path.strip("/").removeprefix(PATH).strip("/")
        kinds = dict(self._documents())
        if not place:
            paths = {
                each: {"serverRelativeURL": f"/{PATH}/{each}?hash={self._hash(found)}"} for each, found in kinds.items()
            }
            return Response(200, {"content-type": "text/plain; charset=utf-8"}, encode({"paths": paths}))
        if place not in kinds:
            return Response(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")
        if JSON not in request.accept and "*/*" not in request.accept and request.accept:
            return Response(406, {"content-type": "text/plain; charset=utf-8"}, b"only application/json is served\n")
        digest = self._hash(kinds[place])
        known = self._made.get(place)
        if known is None or known[0] != digest:
            known = self._made[place] = digest, encode(self._document(place, kinds[place]))
        return Response(200, {"content-type": JSON, "etag": f'"{digest}"'}, known[1])

    def answer_v2(self, request: Request) -> Response:
        """Return the document of OpenAPI v2, as protobuf to who asks for that; raises `Refusal`."""
        if request.method != "GET":
            raise refusals.method_not_allowed()
        if request.path.strip("/") != PATH_OF_V2:
            return Response(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")
        binary = any(each in request.accept for each in gnostic.ACCEPTED)
        media_type = gnostic.MEDIA_TYPE if binary else JSON
        documents = dict(self._documents())
        digest = hashlib.sha512("".join(map(self._hash, documents.values())).encode()).hexdigest().upper()
        known = self._made_of_v2.get(media_type)
        if known is None or known[0] != digest:
            made = swagger.document(self._document(place, kinds) for place, kinds in documents.items())
            known = self._made_of_v2[media_type] = digest, gnostic.document(made) if binary else encode(made)
        return Response(200, {"content-type": media_type, "etag": f'"{digest}"'}, known[1])

    def _documents(self) -> Iterator[tuple[str, list[Kind]]]:
        """Yield the kinds of each group and version."""
        listed = sorted(self._catalog, key=lambda kind: (kind.group, kind.version, kind.plural))
        for (group, version), found in groupby(listed, key=lambda kind: (kind.group, kind.version)):
            yield f"apis/{group}/{version}" if group else f"api/{version}", list(found)

    def _hash(self, kinds: list[Kind]) -> str:
        """Return what changes when a document does."""
        digest = hashlib.sha512()
        for kind in kinds:
            parts = ",".join(part.name for part in kind.subresources)
            digest.update(f"{kind.group}/{kind.version}/{kind.plural}/{kind.name}/{parts}".encode())
            digest.update(encode(self._custom(kind) if kind.custom else sorted(self._structures.definitions)))
        return digest.hexdigest().upper()

    def _document(self, place: str, kinds: list[Kind]) -> Object:
        paths: Object = {}
        schemas: Object = {}
        for name in _ALWAYS:
            self._collect(name, schemas)
        for kind in kinds:
            name = self._schema_name(kind)
            if kind.custom:
                schemas[name] = self._custom(kind)
            else:
                self._collect(name, schemas)
            schemas.setdefault(f"{name}List", _list_of(kind, name))
            paths |= dict(_paths(place, kind, name))
            for part in kind.subresources:
                if part.kind and (inner := self._structures.name(part.group, part.version, part.kind)):
                    self._collect(inner, schemas)
        info = {"title": "Kubernetes", "version": str(self._release)}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}

    def _schema_name(self, kind: Kind) -> str:
        """Return the name of a kind's schema: of custom ones the group backwards, as upstream."""
        found = None if kind.custom else self._structures.name(kind.group, kind.version, kind.name)
        return found or ".".join([*reversed(kind.group.split(".")), kind.version, kind.name])

    def _collect(self, name: str, schemas: Object) -> None:
        """Add a definition and all that it refers to."""
        waiting = [name]
        while waiting:
            each = waiting.pop()
            if each not in schemas and each in self._structures.definitions:
                schemas[each] = self._described(each)
                waiting.extend(_references(schemas[each]))

    def _described(self, name: str) -> Object:
        about, fields = descriptions.of_type(name)
        shown: Object = _shown(self._structures.definitions[name])
        for field, each in shown.get("properties", {}).items():
            target = next(iter(_references(each)), "")
            text = fields.get(field) or (target and descriptions.of_type(target)[0])
            if text:
                each["description"] = text
        return ({"description": about} if about else {}) | shown

    def _custom(self, kind: Kind) -> Object:
        """Return the schema of a custom kind as its definition has it, with the fields all objects have."""
        for definition in self._definitions():
            spec = definition["spec"]
            if (spec["group"], spec["names"]["plural"]) == (kind.group, kind.plural):
                schemas = (each.get("schema") or {} for each in spec["versions"] if each["name"] == kind.version)
                return _with_metadata(next(schemas, {}).get("openAPIV3Schema") or {"type": "object"}, kind)
        return _with_metadata({"type": "object"}, kind)


def _with_metadata(schema: Object, kind: Kind) -> Object:
    _, texts = descriptions.of_type("io.k8s.api.core.v1.Pod")  # every kind says the same of these two
    common: Object = {
        name: {"type": "string"} | ({"description": texts[name]} if name in texts else {})
        for name in ("apiVersion", "kind")
    }
    about = descriptions.of_type(OBJECT_META)[0]
    common["metadata"] = {"allOf": [{"$ref": REFERENCE + OBJECT_META}]} | ({"description": about} if about else {})
    properties = {**(schema.get("properties") or {}), **common}
    return schema | {"properties": properties, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _list_of(kind: Kind, name: str) -> Object:
    gvk = _gvk(kind)
    properties: Object = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": f"{REFERENCE}{_META}ListMeta"}]},
        "items": {"type": "array", "items": {"$ref": REFERENCE + name}},
    }
    found: Object = {"type": "object", "required": ["items"], "properties": properties}
    return found | {"x-kubernetes-group-version-kind": [gvk | {"kind": f"{gvk['kind']}List"}]}


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.name}


def _shown(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of a schema without what is only ours."""
    if isinstance(schema, dict):
        return {name: _shown(each) for name, each in schema.items() if name != "x-go"}
    return [_shown(each) for each in schema] if isinstance(schema, list) else schema


def _references(schema: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        for name, each in schema.items():
            if name == "$ref" and isinstance(each, str):
                yield each.removeprefix(REFERENCE)
            else:
                yield from _references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def _paths(place: str, kind: Kind, schema: str) -> Iterator[tuple[str, Object]]:
    """Yield the paths of a kind, each with what can be done there."""
    whole = f"/{place}/{kind.plural}"
    inside = f"/{place}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else whole
    namespace = [_NAMESPACE] if kind.namespaced else []
    many = [
        each for each in (("get", "list"), ("post", "create"), ("delete", "deletecollection")) if each[1] in kind.verbs
    ]
    yield inside, _operations(kind, many, schema, namespace)
    if kind.namespaced and "list" in kind.verbs:
        yield whole, _operations(kind, [("get", "list")], schema, [])
    one = [each for each in _ONE if each[1] in kind.verbs]
    if one:
        yield f"{inside}/{{name}}", _operations(kind, one, schema, [*namespace, _NAME])
    for part in kind.subresources:
        verbs = [each for each in (*_ONE, ("post", "create")) if each[1] in part.verbs]
        yield f"{inside}/{{name}}/{part.name}", _operations(kind, verbs, schema, [*namespace, _NAME], part)


_MANY: Final = (("get", "list"), ("post", "create"), ("delete", "deletecollection"))
_ONE: Final = (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))
_ACTIONS: Final = {"create": "post", "update": "put"}


def _operations(
    kind: Kind,
    verbs: Iterable[tuple[str, str]],
    schema: str,
    parameters: list[Object],
    part: Subresource | None = None,
) -> Object:
    gvk = _gvk(kind)
    if part is not None and part.kind:
        gvk = {"group": part.group, "version": part.version, "kind": part.kind}
    found: Object = {"parameters": parameters} if parameters else {}
    for method, verb in verbs:
        about: Object = {"x-kubernetes-action": _ACTIONS.get(verb, verb), "x-kubernetes-group-version-kind": gvk}
        shown = f"{schema}List" if verb == "list" else schema
        about["responses"] = {"200": {"description": "OK", "content": {JSON: {"schema": {"$ref": REFERENCE + shown}}}}}
        if verb == "patch":
            about["parameters"] = [*_WRITING, _FORCE]
            formats = [APPLY_PATCH, JSON_PATCH, MERGE_PATCH, *([] if kind.custom else [STRATEGIC_PATCH])]
            patch = {"schema": {"$ref": f"{REFERENCE}{_META}Patch"}}
            about["requestBody"] = {"content": dict.fromkeys(formats, patch), "required": True}
        elif verb in ("create", "update"):
            about["parameters"] = list(_WRITING)
            about["requestBody"] = {"content": {"*/*": {"schema": {"$ref": REFERENCE + schema}}}, "required": True}
        found[method] = about
    return found
