"""Serves OpenAPI v3: an index with hashes and one document per group and version, custom ones included; v2 from v3.

The documents contain the parts that clients use: paths with verbs, options and patch types (from which kubectl learns
whether a server supports dry run and field validation), and schemas with everything for patches and kubectl explain.
A document is built on the first request and cached until one of its kinds changes.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from dra.kube.transport import APPLY_PATCH, JSON, MERGE_PATCH, STRATEGIC_PATCH, Request, Response
from dra.model.releases import Release
from localplane import openapi_v2, openapi_v2_protobuf, status_errors
from localplane.kinds.catalog import Catalog
from localplane.kinds.kind import Kind
from localplane.kinds.subresource import Subresource
from localplane.objects import Object, encode
from localplane.patches.patch_types import JSON_PATCH
from localplane.schemas import descriptions
from localplane.schemas.builtin_schemas import DELETE_OPTIONS, OBJECT_META, BuiltinSchemas
from localplane.schemas.openapi_reader import REF_PREFIX

V3_PATH: Final = "openapi/v3"
V2_PATH: Final = "openapi/v2"

_META_V1: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_COMMON_DEFINITIONS: Final = (
    DELETE_OPTIONS,
    f"{_META_V1}Patch",
    f"{_META_V1}Status",
    f"{_META_V1}ListMeta",
    OBJECT_META,
)

_STRING: Final = {"type": "string", "uniqueItems": True}
_NAME_PARAMETER: Final = {"name": "name", "in": "path", "required": True, "schema": _STRING}
_NAMESPACE_PARAMETER: Final = {"name": "namespace", "in": "path", "required": True, "schema": _STRING}
_WRITE_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": _STRING} for name in ("dryRun", "fieldManager", "fieldValidation")
]
_FORCE_PARAMETER: Final = {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}}


class OpenApiService:
    """Serves the paths below ``/openapi``."""

    def __init__(
        self,
        catalog: Catalog,
        builtin_schemas: BuiltinSchemas,
        *,
        release: Release,
        definitions: Callable[[], Iterable[Object]],
    ) -> None:
        """Create the service; `definitions` returns all stored CustomResourceDefinitions."""
        self._release: Final = release
        self._catalog: Final = catalog
        self._builtin_schemas: Final = builtin_schemas
        self._definitions: Final = definitions
        self._cached_documents: Final[dict[str, tuple[str, bytes]]] = {}
        self._cached_v2_documents: Final[dict[str, tuple[str, bytes]]] = {}
        """Digest and document of OpenAPI v2 by media type."""

    def respond(self, request: Request) -> Response:
        """Return the index or a document of OpenAPI v3; raises `StatusError`."""
        if request.method != "GET":
            raise status_errors.method_not_allowed()
        path = request.path.strip("/").removeprefix(V3_PATH).strip("/")
        kinds = dict(self._documents())
        if not path:
            paths = {
                document_path: {"serverRelativeURL": f"/{V3_PATH}/{document_path}?hash={self._hash(served)}"}
                for document_path, served in kinds.items()
            }
            return Response(200, {"content-type": "text/plain; charset=utf-8"}, encode({"paths": paths}))
        if path not in kinds:
            return Response(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")
        if JSON not in request.accept and "*/*" not in request.accept and request.accept:
            return Response(406, {"content-type": "text/plain; charset=utf-8"}, b"only application/json is served\n")
        digest = self._hash(kinds[path])
        cached = self._cached_documents.get(path)
        if cached is None or cached[0] != digest:
            cached = self._cached_documents[path] = digest, encode(self._document(path, kinds[path]))
        return Response(200, {"content-type": JSON, "etag": f'"{digest}"'}, cached[1])

    def respond_v2(self, request: Request) -> Response:
        """Return the document of OpenAPI v2, as protobuf if the client accepts protobuf; raises `StatusError`."""
        if request.method != "GET":
            raise status_errors.method_not_allowed()
        if request.path.strip("/") != V2_PATH:
            return Response(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")
        binary = any(accepted in request.accept for accepted in openapi_v2_protobuf.ACCEPTED_MEDIA_TYPES)
        media_type = openapi_v2_protobuf.MEDIA_TYPE if binary else JSON
        documents = dict(self._documents())
        digest = hashlib.sha512("".join(map(self._hash, documents.values())).encode()).hexdigest().upper()
        cached = self._cached_v2_documents.get(media_type)
        if cached is None or cached[0] != digest:
            document = openapi_v2.from_openapi_v3(self._document(path, kinds) for path, kinds in documents.items())
            cached = self._cached_v2_documents[media_type] = (
                digest,
                openapi_v2_protobuf.encode_document(document) if binary else encode(document),
            )
        return Response(200, {"content-type": media_type, "etag": f'"{digest}"'}, cached[1])

    def _documents(self) -> Iterator[tuple[str, list[Kind]]]:
        """Yield the kinds of each group and version."""
        listed = sorted(self._catalog, key=lambda kind: (kind.group, kind.version, kind.plural))
        for (group, version), of_version in groupby(listed, key=lambda kind: (kind.group, kind.version)):
            yield f"apis/{group}/{version}" if group else f"api/{version}", list(of_version)

    def _hash(self, kinds: list[Kind]) -> str:
        """Return a digest of the kinds of a document; a change of the document changes the digest."""
        digest = hashlib.sha512()
        for kind in kinds:
            parts = ",".join(part.name for part in kind.subresources)
            digest.update(f"{kind.group}/{kind.version}/{kind.plural}/{kind.name}/{parts}".encode())
            digest.update(
                encode(self._custom_schema(kind) if kind.is_custom else sorted(self._builtin_schemas.definitions))
            )
        return digest.hexdigest().upper()

    def _document(self, path: str, kinds: list[Kind]) -> Object:
        paths: Object = {}
        schemas: Object = {}
        for name in _COMMON_DEFINITIONS:
            self._add_definition(name, schemas)
        for kind in kinds:
            name = self._schema_name(kind)
            if kind.is_custom:
                schemas[name] = self._custom_schema(kind)
            else:
                self._add_definition(name, schemas)
            schemas.setdefault(f"{name}List", _list_schema(kind, name))
            paths |= dict(_paths(path, kind, name))
            for part in kind.subresources:
                if part.kind and (inner := self._builtin_schemas.name(part.group, part.version, part.kind)):
                    self._add_definition(inner, schemas)
        info = {"title": "Kubernetes", "version": str(self._release)}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}

    def _schema_name(self, kind: Kind) -> str:
        """Return the name of a kind's schema; for a custom kind the reversed group comes first, as upstream."""
        schema_name = None if kind.is_custom else self._builtin_schemas.name(kind.group, kind.version, kind.name)
        return schema_name or ".".join([*reversed(kind.group.split(".")), kind.version, kind.name])

    def _add_definition(self, name: str, schemas: Object) -> None:
        """Add a definition and all definitions that it refers to."""
        waiting = [name]
        while waiting:
            definition = waiting.pop()
            if definition not in schemas and definition in self._builtin_schemas.definitions:
                schemas[definition] = self._describe_definition(definition)
                waiting.extend(_referenced_definitions(schemas[definition]))

    def _describe_definition(self, name: str) -> Object:
        description, fields = descriptions.describe_type(name)
        shown: Object = _without_go_types(self._builtin_schemas.definitions[name])
        for field, property_schema in shown.get("properties", {}).items():
            target = next(iter(_referenced_definitions(property_schema)), "")
            text = fields.get(field) or (target and descriptions.describe_type(target)[0])
            if text:
                property_schema["description"] = text
        return ({"description": description} if description else {}) | shown

    def _custom_schema(self, kind: Kind) -> Object:
        """Return the schema of a custom kind from its definition, with the fields that all objects have."""
        for definition in self._definitions():
            spec = definition["spec"]
            if (spec["group"], spec["names"]["plural"]) == (kind.group, kind.plural):
                schemas = (
                    version.get("schema") or {} for version in spec["versions"] if version["name"] == kind.version
                )
                return _with_metadata(next(schemas, {}).get("openAPIV3Schema") or {"type": "object"}, kind)
        return _with_metadata({"type": "object"}, kind)


def _with_metadata(schema: Object, kind: Kind) -> Object:
    _, texts = descriptions.describe_type("io.k8s.api.core.v1.Pod")  # the two texts are the same for every kind
    common: Object = {
        name: {"type": "string"} | ({"description": texts[name]} if name in texts else {})
        for name in ("apiVersion", "kind")
    }
    metadata_description = descriptions.describe_type(OBJECT_META)[0]
    common["metadata"] = {"allOf": [{"$ref": REF_PREFIX + OBJECT_META}]} | (
        {"description": metadata_description} if metadata_description else {}
    )
    properties = {**(schema.get("properties") or {}), **common}
    return schema | {"properties": properties, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _list_schema(kind: Kind, name: str) -> Object:
    gvk = _gvk(kind)
    properties: Object = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": f"{REF_PREFIX}{_META_V1}ListMeta"}]},
        "items": {"type": "array", "items": {"$ref": REF_PREFIX + name}},
    }
    schema: Object = {"type": "object", "required": ["items"], "properties": properties}
    return schema | {"x-kubernetes-group-version-kind": [gvk | {"kind": f"{gvk['kind']}List"}]}


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.name}


def _without_go_types(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of a schema without the private keyword ``x-go``."""
    if isinstance(schema, dict):
        return {name: _without_go_types(part) for name, part in schema.items() if name != "x-go"}
    return [_without_go_types(part) for part in schema] if isinstance(schema, list) else schema


def _referenced_definitions(schema: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        for name, part in schema.items():
            if name == "$ref" and isinstance(part, str):
                yield part.removeprefix(REF_PREFIX)
            else:
                yield from _referenced_definitions(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _referenced_definitions(part)


def _paths(path: str, kind: Kind, schema: str) -> Iterator[tuple[str, Object]]:
    """Yield the paths of a kind, each with its operations."""
    whole = f"/{path}/{kind.plural}"
    inside = f"/{path}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else whole
    namespace = [_NAMESPACE_PARAMETER] if kind.namespaced else []
    many = [
        operation
        for operation in (("get", "list"), ("post", "create"), ("delete", "deletecollection"))
        if operation[1] in kind.verbs
    ]
    yield inside, _operations(kind, many, schema, namespace)
    if kind.namespaced and "list" in kind.verbs:
        yield whole, _operations(kind, [("get", "list")], schema, [])
    one = [operation for operation in _OBJECT_OPERATIONS if operation[1] in kind.verbs]
    if one:
        yield f"{inside}/{{name}}", _operations(kind, one, schema, [*namespace, _NAME_PARAMETER])
    for part in kind.subresources:
        verbs = [operation for operation in (*_OBJECT_OPERATIONS, ("post", "create")) if operation[1] in part.verbs]
        yield f"{inside}/{{name}}/{part.name}", _operations(kind, verbs, schema, [*namespace, _NAME_PARAMETER], part)


_OBJECT_OPERATIONS: Final = (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))
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
    operations: Object = {"parameters": parameters} if parameters else {}
    for method, verb in verbs:
        operation: Object = {"x-kubernetes-action": _ACTIONS.get(verb, verb), "x-kubernetes-group-version-kind": gvk}
        shown = f"{schema}List" if verb == "list" else schema
        operation["responses"] = {
            "200": {"description": "OK", "content": {JSON: {"schema": {"$ref": REF_PREFIX + shown}}}}
        }
        if verb == "patch":
            operation["parameters"] = [*_WRITE_PARAMETERS, _FORCE_PARAMETER]
            formats = [APPLY_PATCH, JSON_PATCH, MERGE_PATCH, *([] if kind.is_custom else [STRATEGIC_PATCH])]
            patch = {"schema": {"$ref": f"{REF_PREFIX}{_META_V1}Patch"}}
            operation["requestBody"] = {"content": dict.fromkeys(formats, patch), "required": True}
        elif verb in ("create", "update"):
            operation["parameters"] = list(_WRITE_PARAMETERS)
            operation["requestBody"] = {"content": {"*/*": {"schema": {"$ref": REF_PREFIX + schema}}}, "required": True}
        operations[method] = operation
    return operations
